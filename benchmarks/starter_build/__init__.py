"""How the starter model was made from scratch: demonstrations, tokenizer, eleven passes of training."""
