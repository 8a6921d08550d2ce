// What the loop keeps for its sockets; for the files of this library only.
#pragma once

#include <array>
#include <atomic>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "baton/net/io/event_loop.h"

namespace baton::net {

struct EventLoop::Impl {
  // A concurrency hint of 1 and not UNSAFE: other threads post.
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      context.get_executor()};
  std::atomic<std::thread::id> runner{};
  /// Every socket of the loop reads here and hands the bytes on before the next one reads, so an
  /// idle connection holds no buffer.
  std::array<char, 64 * 1024> scratch;
};

}  // namespace baton::net
