#include "apps/plan/open_degrees.hpp"

#include <algorithm>
#include <cstdio>

#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "core/text.hpp"
#include "job/degrees.hpp"

namespace troupe::apps {

int show_degrees(const config::loaded& loaded, const plan_arguments& a, const plan::cost_model& costs) {
  const auto& c = loaded.config;
  if (c.open_degrees.empty()) {
    std::fprintf(stderr,
                 "troupe: error: --degrees: all degrees of parallel are given; set some of them to auto, and "
                 "parallel.ranks\n");
    return 2;
  }
  const auto list = job::list_degrees(c, {}, &costs);
  if (!list) return failed(list.error());
  if (a.form == output_form::json) {
    std::printf("%s", job::degrees_as_json(*list).c_str());
    return list->chosen ? 0 : 1;
  }
  std::printf("%u ranks on %u cores; steps predicted by the cost model\n", c.parallel.ranks(), list->cores);
  if (c.host_memory_budget > 0)
    std::printf("budget: %s of states for all ranks\n", core::human_bytes(c.host_memory_budget).c_str());
  std::printf("%s", job::degrees_as_table(*list).c_str());
  std::printf("%s\n", job::reason_of(*list).c_str());
  if (list->chosen) return 0;
  failed_at(job::chosen_degrees(*list, c).error(), loaded);
  return 1;
}

std::optional<int> take_predicted_degrees(config::loaded& loaded, const plan::cost_model& costs) {
  if (loaded.config.open_degrees.empty()) return std::nullopt;
  const auto list = job::list_degrees(loaded.config, {}, &costs);
  if (!list) return failed(list.error());
  const auto taken = job::chosen_degrees(*list, loaded.config);
  if (!taken) return failed_at(taken.error(), loaded);
  config::take_degrees(*taken, loaded);
  std::fprintf(stderr, "degrees: %s (troupe plan --degrees lists them)\n", job::reason_of(*list).c_str());
  return std::nullopt;
}

int failed_at(const core::error& e, const config::loaded& loaded) {
  const std::string key = e.text.substr(0, e.text.find(':'));
  const auto at = std::ranges::find(loaded.values, key, &config::effective_value::key);
  const bool given = std::ranges::binary_search(loaded.given, key);
  if (at == loaded.values.end() || !given || at->origin == "auto") return failed(e);
  print_error_line(at->origin + ": error: " + e.text);
  return e.kind == core::error_kind::bad_input ? 2 : 1;
}

}  // namespace troupe::apps
