"""Neural building blocks: conditional flows and the layers they are made of."""
