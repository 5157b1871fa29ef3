"""Images and prompts to tokens: small encoders trained from scratch, and pretrained ones through transformers."""
