#include "apps/plan/show_cost.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/base/exit_code.hpp"
#include "core/text.hpp"
#include "plan/choose/cost_terms.hpp"

namespace troupe::apps {
namespace {

constexpr double giga = 1e9, micro = 1e6;

/// Returns an amount per second with its unit.
std::string rate_text(const plan::cost_term& term) {
  const auto unit = plan::unit_of(term.kind);
  if (term.rate() == 0) return "-";
  if (unit == "operations") return fmt::format("{:.3g} us each", micro / term.rate());
  return fmt::format("{:.4g} G{}/s", term.rate() / giga, unit);
}

}  // namespace

int show_cost(const plan::rank_plan& p, uint32_t id, const plan::cost_model& costs, const std::string& source,
              output_form form) {
  if (id >= p.instructions.size())
    return failed({core::error_kind::bad_input,
                   fmt::format("--explain-cost: wanted an instruction below {} of rank {} (--format table lists them), "
                               "got {}",
                               p.instructions.size(), p.rank, id)});
  const auto& x = p.instructions[id];
  const auto terms = plan::cost_terms(p, x, costs);
  const double seconds = plan::predicted_seconds(p, x, costs);
  const auto name = p.describe(id);
  if (form == output_form::json) {
    using object = nlohmann::ordered_json;
    object all = object::array();
    for (const auto& term : terms)
      all.push_back({{"term", term.text()},
                     {"amount", term.amount},
                     {"unit", plan::unit_of(term.kind)},
                     {"rate", term.rate()},
                     {"seconds", term.seconds}});
    std::printf("%s\n", object{{"format", "troupe plan --explain-cost"},
                               {"version", 1},
                               {"rank", p.rank},
                               {"instruction", id},
                               {"name", name},
                               {"seconds", seconds},
                               {"wakeup_s", costs.latency_s},
                               {"source", source},
                               {"terms", all}}
                            .dump(2)
                            .c_str());
    return 0;
  }
  std::string out =
      fmt::format("instruction {} of rank {}, {}: {:.1f} us, by {}\n", id, p.rank, name, seconds * micro, source);
  std::vector<std::vector<std::string>> rows{{"term", "amount", "rate", "us"}};
  for (const auto& term : terms)
    rows.push_back({term.text(), fmt::format("{:.4g} {}", term.amount, plan::unit_of(term.kind)), rate_text(term),
                    fmt::format("{:.1f}", term.seconds * micro)});
  out += core::aligned(rows, {false, true, true, true});
  out += fmt::format(
      "before it: {:.1f} us for the message of each instruction of another lane or rank that it waits for\n",
      costs.latency_s * micro);
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
