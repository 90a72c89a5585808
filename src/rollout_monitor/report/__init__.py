"""What a person looks at afterwards: the page of one episode. Knows the record types only."""
