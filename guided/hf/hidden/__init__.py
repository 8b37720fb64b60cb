"""Hidden states of answers: taken from the steps of the loop, or computed after them."""
