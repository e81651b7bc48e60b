"""Results for people to read: tables, cards, pictures, and what a client can take home."""
