"""The pages of the dashboard, one module each. They read and change the store through `operations` only."""
