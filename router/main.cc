// baton-router: owns each request from the first byte to the last.
#include "baton/router/io/run.h"

int main(int argc, char** argv) { return baton::router::router_main(argc, argv); }
