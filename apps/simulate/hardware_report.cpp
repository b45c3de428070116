#include "apps/simulate/hardware_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/simulate/simulate_report.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

using ordered_object = nlohmann::ordered_json;

constexpr double tera = 1e12;

/// Returns how the peak of memory fits, with its margin.
std::string fit_sentence(const hardware_prediction& p) {
  if (p.memory.empty()) return fmt::format("memory is not predicted: {}", p.no_memory);
  const double peak = p.memory.front().price.predicted, card = p.by.on.memory_bytes;
  const auto verdict = verdict_of(p);
  const auto both = fmt::format("{} of {}", core::human_bytes(peak), core::human_bytes(card));
  if (verdict == "exceeds")
    return fmt::format("memory exceeds the card: {}, {} too much", both, core::human_bytes(peak - card));
  if (verdict == "close")
    return fmt::format("memory is close to the card: {}, up to {} in the interval", both,
                       core::human_bytes(p.memory.front().price.high()));
  return fmt::format("memory fits: {}, {} to spare", both, core::human_bytes(card - peak));
}

std::string interval_text(hardware::quantity q, const hardware::priced_sample& price) {
  if (std::isnan(price.factor)) return "no interval: nothing was measured on this card and software";
  return fmt::format("80 % of such runs lie within {} to {}", value_text(q, price.low()), value_text(q, price.high()));
}

/// Returns the parts of a quantity, each with its share, and their sum.
std::string table_of_parts(hardware::quantity q, const predicted_quantity& of) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& part : of.parts) {
    std::string name(part.name.substr(0, part.name.rfind('_')));
    std::ranges::replace(name, '_', ' ');
    rows.push_back({"  " + name, value_text(q, part.value), percent_text(100 * part.value / of.price.predicted)});
  }
  rows.push_back({"  in all", value_text(q, of.price.predicted), ""});
  return core::aligned(rows, {false, true, true});
}

std::string most_influential(const predicted_quantity& of) {
  std::vector<std::string> out;
  for (const auto& one : of.influences) out.push_back(fmt::format("{} {:+.2f} %", one.constant, one.percent));
  return fmt::format("1 % more of the constants that matter most changes it by: {}\n", fmt::join(out, ", "));
}

std::string hardware_sentence(const prediction_request& asked, const hardware_prediction& p) {
  const auto stack = fmt::format("{} ({} on {})", p.by.name, p.by.software, p.by.on.name);
  if (asked.named.empty()) return stack;
  return fmt::format("{}, the stack that is taken for the card {}", stack, asked.named);
}

ordered_object quantity_object(const predicted_quantity& of) {
  const auto number = [](double x) { return std::isfinite(x) ? ordered_object(x) : ordered_object(nullptr); };
  ordered_object parts = ordered_object::object(), most = ordered_object::array();
  for (const auto& part : of.parts) parts[std::string(part.name)] = part.value;
  for (const auto& one : of.influences) most.push_back({{"constant", one.constant}, {"percent", one.percent}});
  return {{"predicted", of.price.predicted},
          {"low", number(of.price.low())},
          {"high", number(of.price.high())},
          {"parts", parts},
          {"matter_most", most}};
}

}  // namespace

std::string verdict_of(const hardware_prediction& p) {
  const auto fit = p.fit();
  if (!fit) return "unknown";
  if (*fit == hardware::fit_of_memory::exceeds) return "exceeds";
  return *fit == hardware::fit_of_memory::close ? "close" : "fits";
}

std::string prediction_as_text(const prediction_request& asked, const hardware_prediction& p) {
  const auto& step = p.step.price;
  std::string out = fmt::format("{} on {} {}: a step takes {}; {}\n", core::printable_line(asked.job), p.job.ranks,
                                p.by.on.name, value_text(hardware::quantity::step, step.predicted), fit_sentence(p));
  for (const auto& warning : p.warnings) out += fmt::format("warning: {}\n", warning);
  out += core::aligned(
      {{"hardware", hardware_sentence(asked, p)},
       {"batch", asked.batch},
       {"tokens/s", fmt::format("{:.4g}, {:.4g} per GPU", p.tokens_per_s, p.tokens_per_s / double(p.job.ranks))},
       {"MFU", fmt::format("{:.1f} %: {:.1f} of {:.4g} TFLOP/s per GPU, {:.4g} billion parameters", 100 * p.used_share,
                           p.flops_per_s / tera, p.by.on.peak_flops_per_s / tera, double(p.job.parameters) / 1e9)}});
  const bool is_far = !p.warnings.empty() && !std::isnan(step.factor);
  out += fmt::format("\nstep: {}{}\n", interval_text(hardware::quantity::step, step),
                     is_far ? ", and an extrapolation may lie outside" : "");
  out += table_of_parts(hardware::quantity::step, p.step) + most_influential(p.step);
  for (const auto& memory : p.memory) {
    out += fmt::format("\nmemory of the fullest stage: {}\n", interval_text(hardware::quantity::memory, memory.price));
    out += table_of_parts(hardware::quantity::memory, memory) + most_influential(memory);
  }
  out += "\nassumed:\n";
  for (const auto& sentence : p.assumed) out += fmt::format("- {}\n", sentence);
  return out;
}

std::string prediction_as_json(const prediction_request& asked, const hardware_prediction& p) {
  const auto& w = p.job.what;
  ordered_object memory{{"verdict", verdict_of(p)}, {"card_bytes", p.by.on.memory_bytes}};
  if (p.memory.empty())
    memory["why"] = p.no_memory;
  else
    memory.update(quantity_object(p.memory.front()));
  return ordered_object{
             {"format", "troupe simulate"},
             {"version", 1},
             {"job", asked.job},
             {"hardware",
              {{"stack", p.by.name},
               {"software", p.by.software},
               {"card", p.by.on.name},
               {"named", asked.named.empty() ? p.by.name : asked.named},
               {"inherits", p.by.inherited_from}}},
             {"ranks", p.job.ranks},
             {"nodes", p.nodes},
             {"degrees", {{"tensor", w.tensor}, {"pipeline", w.pipeline}, {"data", w.data}, {"context", w.context}}},
             {"global_batch", p.job.global_batch},
             {"micro_batch", w.micro_batch},
             {"micro_batches", w.micro_batches},
             {"batch", asked.batch},
             {"parameters", p.job.parameters},
             {"tokens_per_s", p.tokens_per_s},
             {"tokens_per_s_per_gpu", p.tokens_per_s / double(p.job.ranks)},
             {"flops_per_s_per_gpu", p.flops_per_s},
             {"mfu", p.used_share},
             {"step", quantity_object(p.step)},
             {"memory", memory},
             {"warnings", p.warnings},
             {"assumed", p.assumed}}
             .dump(2, ' ', false, ordered_object::error_handler_t::replace) +
         "\n";
}

}  // namespace troupe::apps
