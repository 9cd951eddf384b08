"""The sellers of an auction's lots, who answer questions about them."""
