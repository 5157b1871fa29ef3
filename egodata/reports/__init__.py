"""Pictures and files about episodes, made for people."""
