// Logging to standard error, one line an event: time, level, component, message. Prompts, keys and
// certificates are never logged (R24); cores never log.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace baton {

enum class LogLevel { debug, info, warning, error };

/// Sets the process's component name ("router", "prefill", …) and lowest level that is written.
void configure_logging(std::string_view component, LogLevel level);

void log_message(LogLevel level, std::string_view message);

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace baton
