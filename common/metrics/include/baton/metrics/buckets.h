// Bucket edges in seconds. They are vLLM's, so that dashboards of both can be compared, widened
// downwards where a small model is faster than their first edge.
#pragma once

#include <array>

namespace baton::metrics {

inline constexpr std::array ttft_buckets_s = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                              0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                              20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};

/// Inter-token latency and time per output token. vLLM starts at 0.01; a small model on a CPU needs
/// 5 ms and less.
inline constexpr std::array token_gap_buckets_s = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,  0.3,
    0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0, 40.0, 80.0};

/// Whole requests and their phases.
inline constexpr std::array request_buckets_s = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                                 5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                                 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

/// Parts of a request (queue, prefill, handoff, first decode step): from 1 ms, most of them short,
/// up to the longest request.
inline constexpr std::array phase_buckets_s = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,  0.1,   0.25,  0.5,    1.0,
    2.5,    5.0,   10.0,   20.0,  40.0, 80.0,  160.0, 480.0, 960.0, 1920.0, 7680.0};

}  // namespace baton::metrics
