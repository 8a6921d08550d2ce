// Metrics of one process: a thin layer over prometheus-cpp. Handles are made once, at start, and
// point at their series: no label look-up per event. Every label value is declared up front, so
// that zero-valued series exist before the first event and no client can add one.
//
// Making handles is for one thread; the handles themselves and expose() are for any. Handles are
// values that stay valid as long as their Registry. A wrong or twice used name is a bug (CHECK).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "baton/base/check.h"
#include "baton/base/time.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace baton::metrics {

/// Name and value; values are free text (they are escaped), names are ours.
using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void add(double amount = 1.0);  ///< a negative amount is ignored
  double value() const;

 private:
  friend class Registry;
  explicit Counter(prometheus::Counter* series) : series_(series) {}
  prometheus::Counter* series_;
};

class Gauge {
 public:
  void set(double value);
  void add(double amount);
  double value() const;

 private:
  friend class Registry;
  explicit Gauge(prometheus::Gauge* series) : series_(series) {}
  prometheus::Gauge* series_;
};

class Histogram {
 public:
  void observe(double value);
  void observe(Duration value) { observe(seconds(value)); }

 private:
  friend class Registry;
  explicit Histogram(prometheus::Histogram* series) : series_(series) {}
  prometheus::Histogram* series_;
};

/// The values of one label, in the order of the index by which a series is found: an enum's
/// enumerators from 0 on, or configured names (see BoundedNames).
struct LabelAxis {
  std::string name;
  std::vector<std::string> values;
};

/// One handle per value of an axis.
template <typename Handle>
class Set {
 public:
  explicit Set(std::vector<Handle> handles) : handles_(std::move(handles)) {}

  /// By enumerator or by number; out of range is a bug.
  template <typename Index>
  Handle& operator[](Index index) {
    const auto at = static_cast<std::size_t>(index);
    BATON_CHECK(at < handles_.size());
    return handles_[at];
  }

  std::size_t size() const { return handles_.size(); }

 private:
  std::vector<Handle> handles_;
};

/// Configured names (models, keys) as an axis that cannot grow: whatever else a client sends counts
/// as "other", the last value.
class BoundedNames {
 public:
  BoundedNames(std::string label, std::vector<std::string> names);
  const LabelAxis& axis() const { return axis_; }
  std::size_t index(std::string_view name) const;

 private:
  LabelAxis axis_;
};

class Registry {
 public:
  /// Both stand as labels on every series; "role" and "node" are not to be used for others.
  Registry(std::string_view role, std::string_view node);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// The same name may be registered again with other label values (same label names, help and
  /// kind).
  Counter counter(std::string_view name, std::string_view help, const Labels& labels = {});
  Gauge gauge(std::string_view name, std::string_view help, const Labels& labels = {});
  Histogram histogram(std::string_view name, std::string_view help,
                      std::span<const double> bucket_edges, const Labels& labels = {});

  /// One series per value of the axis.
  Set<Counter> counters(std::string_view name, std::string_view help, const LabelAxis& axis,
                        const Labels& labels = {});
  Set<Gauge> gauges(std::string_view name, std::string_view help, const LabelAxis& axis,
                    const Labels& labels = {});
  Set<Histogram> histograms(std::string_view name, std::string_view help,
                            std::span<const double> bucket_edges, const LabelAxis& axis,
                            const Labels& labels = {});

  /// `fn` is called at the start of every expose(), on its thread: for gauges that are read rather
  /// than kept (ages, ratios). It must be safe there.
  void before_expose(std::function<void()> fn);

  /// Prometheus text format, version 0.0.4 (content type below).
  std::string expose() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

constexpr std::string_view exposition_content_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace baton::metrics
