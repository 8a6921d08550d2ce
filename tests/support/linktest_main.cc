// The main function of every link test: linking is the test.
int main() { return 0; }
