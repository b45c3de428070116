// Formats lists of candidate degrees as tables for users and as JSON for programs.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "job/degrees.hpp"

namespace troupe::job {
namespace {

using core::text_of;

std::string ms(double seconds) { return text_of("%.2f ms", 1e3 * seconds); }

}  // namespace

std::string degrees_as_table(const degree_list& list) {
  size_t width = 7;
  for (const auto& w : list.ways) width = std::max(width, w.degrees.size());
  std::string out = text_of("  %-*s  %11s  %12s  %12s\n", static_cast<int>(width), "degrees", "predicted", "of a rank",
                            "least budget");
  for (size_t i = 0; i < list.ways.size(); ++i) {
    const auto& w = list.ways[i];
    out += text_of("%c %-*s  ", i == list.chosen ? '*' : ' ', static_cast<int>(width), w.degrees.c_str());
    if (w.is_planned())
      out += text_of("%11s  %12s  %12s", ms(w.predicted_s).c_str(), core::human_bytes(w.rank_bytes).c_str(),
                     core::human_bytes(w.least_budget).c_str());
    if (!w.runs()) out += (w.is_planned() ? "  " : "") + ("no: " + w.refusal);
    out += "\n";
  }
  return out;
}

std::string degrees_as_json(const degree_list& list) {
  const auto text = [](const std::string& s) { return core::json_string(s); };
  std::string out = fmt::format("{{\n  \"cores\": {},\n  \"chosen\": {},\n  \"reason\": {},\n  \"ways\": [", list.cores,
                                list.chosen ? fmt::to_string(*list.chosen) : "null", text(reason_of(list)));
  for (size_t i = 0; i < list.ways.size(); ++i) {
    const auto& w = list.ways[i];
    const auto& p = w.choice.parallel;
    out += std::string(i == 0 ? "" : ",") + "\n    {\"degrees\": " + text(w.degrees);
    for (const auto& [name, degree] :
         {std::pair("pipeline", p.pipeline), std::pair("data", p.data), std::pair("sequence", p.sequence),
          std::pair("context", p.context), std::pair("tensor", p.tensor)})
      out += fmt::format(", \"{}\": {}", name, degree);
    out += fmt::format(
        ", \"train_micro_batch_size_per_gpu\": {}, \"gradient_accumulation_steps\": {}, \"predicted_s\": {}, "
        "\"rank_bytes\": {}, \"least_budget\": {}, \"refusal\": {}}}",
        w.choice.train_micro_batch_size_per_gpu, w.choice.gradient_accumulation_steps,
        w.is_planned() ? core::number_text(w.predicted_s) : "null",
        w.is_planned() ? fmt::to_string(w.rank_bytes) : "null",
        w.is_planned() ? fmt::to_string(w.least_budget) : "null", w.runs() ? "null" : text(w.refusal));
  }
  return out + "\n  ]\n}\n";
}

}  // namespace troupe::job
