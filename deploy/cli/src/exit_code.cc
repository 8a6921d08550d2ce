#include "exit_code.h"

#include <cstdio>

namespace baton::cli {

int exit_code(Reason reason) {
  switch (reason) {
    case Reason::bad_config:
    case Reason::bad_model_file:
      return exit_config;
    case Reason::cancelled:
      return exit_interrupted;
    case Reason::io_error:
    case Reason::transport_failed:
    case Reason::worker_lost:
      return exit_unreachable;
    default:
      break;
  }
  const int status = info(reason).http_status;
  if (status == 503 || status == 504) return exit_unreachable;
  return status < 500 ? exit_refused : exit_software;
}

int report(const Error& error) {
  std::fprintf(stderr, "baton: %s\n", error.message().c_str());
  return exit_code(error.reason());
}

}  // namespace baton::cli
