"""Tables whose cells or rows ruling lines bound."""
