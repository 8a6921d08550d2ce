#include "baton/metrics/registry.h"

#include <algorithm>
#include <map>
#include <set>

#include <prometheus/check_names.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace baton::metrics {
namespace {

using LabelMap = std::map<std::string, std::string>;

/// Longest label value kept, in bytes; model aliases and node names are far shorter.
constexpr std::size_t max_label_bytes = 128;

/// Length of the UTF-8 sequence that starts here, 0 when it is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return overlong || outside ? 0 : length;
}

/// A scrape with one invalid byte is lost as a whole, so those become '?'. Line breaks and quotes
/// are the serializer's to escape.
std::string clean_value(std::string_view text) {
  std::string out;
  while (!text.empty() && out.size() < max_label_bytes) {
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      out.push_back('?');
      text.remove_prefix(1);
      continue;
    }
    if (out.size() + length > max_label_bytes) break;
    out.append(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

LabelMap to_map(const Labels& labels) {
  LabelMap out;
  for (const auto& [name, value] : labels) {
    BATON_CHECK(out.emplace(name, clean_value(value)).second);
  }
  return out;
}

Labels with(const Labels& labels, const std::string& name, const std::string& value) {
  Labels out = labels;
  out.emplace_back(name, value);
  return out;
}

}  // namespace

void Counter::add(double amount) { series_->Increment(amount); }
double Counter::value() const { return series_->Value(); }
void Gauge::set(double value) { series_->Set(value); }
void Gauge::add(double amount) { series_->Increment(amount); }
double Gauge::value() const { return series_->Value(); }
void Histogram::observe(double value) { series_->Observe(value); }

BoundedNames::BoundedNames(std::string label, std::vector<std::string> names) {
  axis_.name = std::move(label);
  for (std::string& name : names) {
    const bool known =
        std::find(axis_.values.begin(), axis_.values.end(), name) != axis_.values.end();
    if (!known && name != "other") axis_.values.push_back(std::move(name));
  }
  axis_.values.emplace_back("other");
}

std::size_t BoundedNames::index(std::string_view name) const {
  const auto found = std::find(axis_.values.begin(), axis_.values.end(), name);
  const auto last = axis_.values.end() - 1;
  return static_cast<std::size_t>(std::min(found, last) - axis_.values.begin());
}

struct Registry::Impl {
  /// Everything registered under one name must agree, or the exposition would be invalid.
  struct Known {
    std::string help;
    prometheus::MetricType type;
    std::vector<std::string> label_names;
    std::vector<double> edges;
  };

  LabelMap constant;
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Merge};
  std::map<std::string, Known> known;
  std::set<std::pair<std::string, LabelMap>> series;
  std::vector<std::function<void()>> hooks;

  /// The labels of the new series, checked; CHECKs what only a bug can break.
  LabelMap admit(std::string_view name, std::string_view help, prometheus::MetricType type,
                 const Labels& labels, std::vector<double> edges = {}) {
    LabelMap map = to_map(labels);
    Known entry{std::string(help), type, {}, std::move(edges)};
    for (const auto& [label, value] : map) {
      BATON_CHECK(prometheus::CheckLabelName(label) && label != "le" && !constant.contains(label));
      entry.label_names.push_back(label);
    }
    BATON_CHECK(prometheus::CheckMetricName(std::string(name)) && !help.empty());
    const auto [at, is_new] = known.emplace(name, entry);
    BATON_CHECK(is_new ||
                (at->second.help == entry.help && at->second.type == entry.type &&
                 at->second.label_names == entry.label_names && at->second.edges == entry.edges));
    // A second series with the same labels would silently be the first one.
    BATON_CHECK(series.emplace(std::string(name), map).second);
    return map;
  }
};

Registry::Registry(std::string_view role, std::string_view node) : impl_(std::make_unique<Impl>()) {
  impl_->constant = {{"role", clean_value(role)}, {"node", clean_value(node)}};
}

Registry::~Registry() = default;

Counter Registry::counter(std::string_view name, std::string_view help, const Labels& labels) {
  const auto map = impl_->admit(name, help, prometheus::MetricType::Counter, labels);
  auto& family = prometheus::BuildCounter()
                     .Name(std::string(name))
                     .Help(std::string(help))
                     .Labels(impl_->constant)
                     .Register(impl_->registry);
  return Counter(&family.Add(map));
}

Gauge Registry::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  const auto map = impl_->admit(name, help, prometheus::MetricType::Gauge, labels);
  auto& family = prometheus::BuildGauge()
                     .Name(std::string(name))
                     .Help(std::string(help))
                     .Labels(impl_->constant)
                     .Register(impl_->registry);
  return Gauge(&family.Add(map));
}

Histogram Registry::histogram(std::string_view name, std::string_view help,
                              std::span<const double> bucket_edges, const Labels& labels) {
  const std::vector<double> edges(bucket_edges.begin(), bucket_edges.end());
  BATON_CHECK(!edges.empty() && std::is_sorted(edges.begin(), edges.end()) &&
              std::adjacent_find(edges.begin(), edges.end()) == edges.end());
  const auto map = impl_->admit(name, help, prometheus::MetricType::Histogram, labels, edges);
  auto& family = prometheus::BuildHistogram()
                     .Name(std::string(name))
                     .Help(std::string(help))
                     .Labels(impl_->constant)
                     .Register(impl_->registry);
  return Histogram(&family.Add(map, edges));
}

Set<Counter> Registry::counters(std::string_view name, std::string_view help, const LabelAxis& axis,
                                const Labels& labels) {
  std::vector<Counter> handles;
  for (const auto& value : axis.values) {
    handles.push_back(counter(name, help, with(labels, axis.name, value)));
  }
  return Set<Counter>(std::move(handles));
}

Set<Gauge> Registry::gauges(std::string_view name, std::string_view help, const LabelAxis& axis,
                            const Labels& labels) {
  std::vector<Gauge> handles;
  for (const auto& value : axis.values) {
    handles.push_back(gauge(name, help, with(labels, axis.name, value)));
  }
  return Set<Gauge>(std::move(handles));
}

Set<Histogram> Registry::histograms(std::string_view name, std::string_view help,
                                    std::span<const double> bucket_edges, const LabelAxis& axis,
                                    const Labels& labels) {
  std::vector<Histogram> handles;
  for (const auto& value : axis.values) {
    handles.push_back(histogram(name, help, bucket_edges, with(labels, axis.name, value)));
  }
  return Set<Histogram>(std::move(handles));
}

void Registry::before_expose(std::function<void()> fn) { impl_->hooks.push_back(std::move(fn)); }

std::string Registry::expose() const {
  for (const auto& hook : impl_->hooks) hook();
  const auto families = impl_->registry.Collect();
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace baton::metrics
