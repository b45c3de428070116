#include "checkpoint/native/manifest_body.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe::checkpoint {
namespace {

using nlohmann::json;

std::string or_null(const std::optional<uint64_t>& x) { return x ? fmt::to_string(*x) : "null"; }

std::string quoted(const std::string& text) { return json(text).dump(); }

void append_cut(std::string& out, const core::parameter_cut& cut) {
  out += fmt::format(R"("cut":{{"style":"{}","dimension":{},"parts":[)", core::name_of(cut.style), cut.dimension);
  for (size_t i = 0; i < cut.parts.size(); ++i)
    out += fmt::format("{}[{}]", i == 0 ? "" : ",", fmt::join(cut.parts[i], ","));
  out += "]},";
}

void append_tensor(std::string& out, const formats::tensor_entry& t) {
  out += fmt::format(R"({{"name":{},"kind":"{}","moment":{},"dtype":"{}","shape":[{}],)", quoted(t.name),
                     formats::name_of(t.kind), quoted(t.moment), core::name_of(t.type), fmt::join(t.shape, ","));
  if (t.cut.cuts()) append_cut(out, t.cut);
  out += "\"pieces\":[";
  for (size_t i = 0; i < t.pieces.size(); ++i) {
    const auto& p = t.pieces[i];
    out += fmt::format(R"({}[{},{},{},{},"{}")", i == 0 ? "" : ",", p.file, p.first, p.count, p.offset_bytes,
                       storage::to_hex(p.digest));
    out += t.cut.cuts() ? fmt::format(",{}]", p.share) : "]";
  }
  out += "]}";
}

/// Returns the JSON text of the run's key `masks`, with a comma before it; empty if the run does not prune.
std::string masks_of(const run_state& r) {
  std::string out;
  for (const auto& x : r.masks) {
    out += fmt::format("{}\n{{\"module\":{},\"technique\":{},\"elements\":{},\"kept\":\"{}\"",
                       out.empty() ? ",\"masks\":[" : ",", quoted(x.module), quoted(x.technique), x.elements,
                       formats::hex_of(x.bits));
    out += x.scores.empty() ? "}" : fmt::format(",\"scores\":\"{}\"}}", formats::hex_of(x.scores));
  }
  return out.empty() ? out : out + "]";
}

/// Returns the JSON text of the run's key `data`, with a comma before it; empty if the data are unknown.
std::string data_of(const run_state& r) {
  if (!r.data) return {};
  std::string out =
      fmt::format(",\n\"data\":{{\"sequence_length\":{},\"validation_fraction\":{},\"tokenizer\":{},\"sources\":[",
                  r.data->sequence_length, json(r.data->validation_fraction).dump(), quoted(r.data->tokenizer));
  for (size_t i = 0; i < r.data->sources.size(); ++i) {
    const auto& x = r.data->sources[i];
    // A path may contain bytes that are not UTF-8, for which the JSON has replacement characters.
    const auto name = json(x.name).dump(-1, ' ', false, json::error_handler_t::replace);
    out += fmt::format("{}[{},{},{},\"{}\"]", i == 0 ? "" : ",", name, x.share, x.tokens, storage::to_hex(x.digest));
  }
  out += "]";
  for (size_t i = 0; i < r.data->validation.size(); ++i) {
    const auto& x = r.data->validation[i];
    out += fmt::format("{}[{},{},\"{}\"]", i == 0 ? ",\"validation\":[" : ",", quoted(x.set), x.tokens,
                       storage::to_hex(x.digest));
  }
  if (!r.data->validation.empty()) out += "]";
  if (!r.data->shuffled) out += ",\"shuffled\":false";
  if (const auto& end = r.data->end_of_text) out += fmt::format(",\"end_of_text\":{}", or_null(*end));
  if (r.data->document_mask) out += fmt::format(",\"document_mask\":{}", *r.data->document_mask);
  if (const auto& m = r.data->masking)
    out += fmt::format(
        R"(,"masking":{{"probability":{},"mask":{},"random":{},"mask_token":{},"vocabulary":{},"special":"{}"}})",
        json(m->probability).dump(), json(m->mask).dump(), json(m->random).dump(), m->mask_token, m->vocabulary,
        storage::to_hex(m->special));
  return out + "}";
}

/// Returns the JSON text of the run's keys `left_out` and `recent_losses`, a comma before each; omits an empty list.
std::string left_out_of(const run_state& r) {
  std::string out;
  for (const auto& x : r.left_out) {
    out += fmt::format("{}\n{{\"steps\":[{},{}],\"after_spike\":{},\"samples\":[",
                       out.empty() ? ",\"left_out\":[" : ",", x.first, x.last, x.after_spike);
    for (size_t i = 0; i < x.samples.size(); ++i)
      out += fmt::format("{}[{},{}]", i == 0 ? "" : ",", x.samples[i].begin, x.samples[i].end);
    out += "]}";
  }
  if (!out.empty()) out += "]";
  for (size_t i = 0; i < r.recent_losses.size(); ++i)
    out += (i == 0 ? ",\n\"recent_losses\":[" : ",") + json(r.recent_losses[i]).dump();
  return r.recent_losses.empty() ? out : out + "]";
}

/// Returns the JSON text of the run's key `group_changes`, with a comma before it; empty if there are none.
std::string group_changes_of(const run_state& r) {
  std::string out;
  const auto value = [](const std::optional<double>& x) { return x ? json(*x).dump() : std::string("null"); };
  for (const auto& x : r.group_changes)
    out += fmt::format("{}[{},{},{}]", out.empty() ? ",\n\"group_changes\":[" : ",", quoted(x.group),
                       value(x.learning_rate), value(x.weight_decay));
  return out.empty() ? out : out + "]";
}

}  // namespace

uint32_t manifest_version_for(const manifest& m) {
  if (!m.run.group_changes.empty()) return 4;
  if (!m.run.left_out.empty() || !m.run.seed) return 3;
  return std::ranges::any_of(m.tensors, [](const auto& t) { return t.cut.cuts(); }) ? 2 : 1;
}

std::string manifest_body(const manifest& m) {
  const auto& r = m.run;
  std::string order;
  for (const auto& name : r.parameter_order) {
    if (!order.empty()) order += ',';
    order += quoted(name);
  }
  std::string ranges;
  for (const auto& x : r.input_ranges)
    ranges += fmt::format("{}[{},{},{}]", ranges.empty() ? ",\n\"input_ranges\":[" : ",", quoted(x.layer),
                          json(x.least).dump(), json(x.largest).dump());
  if (!ranges.empty()) ranges += "]";
  std::string scale = "null";
  if (r.loss_scale)
    scale = fmt::format(R"({{"cur_scale":{},"cur_iter":{},"last_overflow_iter":{},"cur_hysteresis":{}}})",
                        json(r.loss_scale->cur_scale).dump(), r.loss_scale->cur_iter, r.loss_scale->last_overflow_iter,
                        r.loss_scale->cur_hysteresis);
  std::string teacher;
  if (r.teacher)
    teacher = fmt::format(R"(,"teacher":{{"folder":{},"digest":"{}"}})", quoted(r.teacher->folder),
                          storage::to_hex(r.teacher->digest));
  std::string out = fmt::format(
      "\"save_id\":\"{}\",\n\"run\":{{\"step\":{},\"applied_updates\":{},\"loss_scale\":{},"
      "\"data_position\":{},\"seed\":{},\n\"config\":{},\n\"model\":{},\n\"client_state\":{},\n"
      "\"schedule_position\":{},\"samples_per_step\":{},\"parameter_order\":[{}]{}{}{}{}{}{}}},\n\"committed_unix_ns\":"
      "{}"
      ","
      "\n",
      storage::to_hex(m.save_id), r.step, r.applied_updates, scale, r.data_position, or_null(r.seed), quoted(r.config),
      quoted(r.model), quoted(r.client_state), or_null(r.schedule_position), or_null(r.samples_per_step), order,
      masks_of(r), teacher, ranges, data_of(r), left_out_of(r), group_changes_of(r), m.committed_unix_ns);
  out += "\"files\":[";
  for (size_t i = 0; i < m.files.size(); ++i)
    out += fmt::format("{}[{},{}]", i == 0 ? "" : ",", quoted(m.files[i].name), m.files[i].bytes);
  out += "],\n\"tensors\":[";
  for (size_t i = 0; i < m.tensors.size(); ++i) {
    out += i == 0 ? "\n" : ",\n";
    append_tensor(out, m.tensors[i]);
  }
  out += "],\n\"tied\":[";
  for (size_t i = 0; i < m.tied.size(); ++i)
    out += fmt::format("{}[{},{}]", i == 0 ? "" : ",", quoted(m.tied[i].name), quoted(m.tied[i].of));
  out += "]}\n";
  return out;
}

}  // namespace troupe::checkpoint
