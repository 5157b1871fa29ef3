"""The format in code: names, canonical JSON, digests, features, store layout. See docs/format.md."""
