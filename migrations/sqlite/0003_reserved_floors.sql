-- For whom a floor is kept while nobody has it, as JSON.
ALTER TABLE floors ADD COLUMN reserved TEXT;
