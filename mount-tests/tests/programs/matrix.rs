pub fn row(_id: &str) {}
