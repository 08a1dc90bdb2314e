"""The door that every change passes: locks, the journal, its history."""
