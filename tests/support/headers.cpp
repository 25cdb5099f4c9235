// The headers of all tests, compiled once; see tests/CMakeLists.txt.
int main() {}
