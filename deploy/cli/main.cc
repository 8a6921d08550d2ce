// baton: the command for people.
#include "baton/deploy/cli/cli.h"

int main(int argc, char** argv) { return baton::cli::cli_main(argc, argv); }
