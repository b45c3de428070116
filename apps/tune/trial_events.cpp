#include "apps/tune/trial_events.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/json_text.hpp"

namespace troupe::apps {

bool trial_events::take(std::string_view line) {
  if (!line.starts_with("{\"event\":\"step\"")) return false;
  const auto event = core::parse_json(line);
  if (!event || !event->is_object()) return false;
  const auto seconds = event->find("step_s");
  if (seconds == event->end() || !seconds->is_number()) return false;
  ++steps_;
  const auto is_set = [&](const char* name) {
    const auto at = event->find(name);
    return at != event->end() && at->is_boolean() && at->get<bool>();
  };
  const double step_s = seconds->get<double>();
  if (steps_ > warm_steps && step_s > 0 && !is_set("skipped") && !is_set("again")) measured_s_.push_back(step_s);
  return true;
}

double trial_events::step_s() const {
  if (measured_s_.empty()) return 0;
  auto sorted = measured_s_;
  std::ranges::sort(sorted);
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace troupe::apps
