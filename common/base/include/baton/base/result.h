// Result<T>: the answer of every function that the outside world can make fail. What only a bug
// can cause is a CHECK (check.h). No exception crosses a module's edge.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <boost/system/result.hpp>

#include "baton/base/reason.h"

namespace baton {

/// A reason and one sentence for a person: what is wrong, with which value, and what to do. Never
/// holds prompt text or secrets (R24).
class Error {
 public:
  Error() = default;
  Error(Reason reason, std::string message) : reason_(reason), message_(std::move(message)) {}

  Reason reason() const { return reason_; }
  const std::string& message() const { return message_; }

  friend bool operator==(const Error&, const Error&) = default;

 private:
  Reason reason_ = Reason::internal;
  std::string message_;
};

template <typename T>
using Result = boost::system::result<T, Error>;

/// Result<void> success.
inline Result<void> ok() { return {}; }

/// boost::system::result calls this (found by argument-dependent look-up) when value() is called on
/// a failed result; that is a bug of the caller.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  throw std::logic_error("value() of a failed Result: " + error.message());
}

// BATON_TRY(expr): returns the error of a Result<void> to the caller.
// BATON_ASSIGN(decl, expr): the value of a Result<T>, or returns its error to the caller.
#define BATON_CONCAT_(a, b) a##b
#define BATON_CONCAT(a, b) BATON_CONCAT_(a, b)
#define BATON_TRY(expr)                                                \
  do {                                                                 \
    auto baton_try_result = (expr);                                    \
    if (baton_try_result.has_error()) return baton_try_result.error(); \
  } while (false)
#define BATON_ASSIGN(decl, expr) BATON_ASSIGN_(BATON_CONCAT(baton_result_, __LINE__), decl, expr)
#define BATON_ASSIGN_(name, decl, expr)      \
  auto name = (expr);                        \
  if (name.has_error()) return name.error(); \
  decl = std::move(*name)

}  // namespace baton
