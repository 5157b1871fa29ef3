from egotrain.report import result_rows


def test_a_row_per_metric_and_a_column_per_actor():
    scores = {
        "policy": {"head.xyz_mse_m2": 0.25, "wrist.xyz_mse_m2": 0.25, "head.rotation_deg": None, "wrist.rotation_deg": 3.0},
        "hold_still": {"head.xyz_mse_m2": 0.5, "wrist.xyz_mse_m2": 0.5},
    }
    columns, rows = result_rows({"seen": scores, "train": {"policy": {"joint.mse": 1.0}}})
    assert columns == ["head", "metric", "policy", "hold_still"]
    assert rows == [
        ["seen", "head.xyz_mse_m2", "0.25", "0.5"],
        ["seen", "head.rotation_deg", "", ""],
        ["seen", "wrist.rotation_deg", "3", ""],
        ["train", "joint.mse", "1", ""],
    ]
