#include "apps/checkpoint/checkpoint_show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "apps/base/error_line.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/stop_request.hpp"
#include "apps/base/work_display.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "config/document/name_map_file.hpp"
#include "core/text.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/name_rules.hpp"
#include "formats/names/printed_map.hpp"
#include "formats/report/inspect.hpp"
#include "formats/report/verify.hpp"

namespace troupe::apps {
namespace {

using core::human_bytes;

const char* plural(uint64_t n) { return n == 1 ? "" : "s"; }

/// Returns the part of the verdict that depends on the format: what the bytes were compared with.
std::string what_was_compared(const formats::tensor_source& s, const formats::verify_report& r) {
  if (s.has_digests) return fmt::format("{} against their digests", human_bytes(r.compared_bytes));
  if (r.compared_bytes == 0)
    return "the format has no digests: names, shapes and places are right and every byte can be read";
  return fmt::format("{} against the archives' CRC-32; the format has no other digests", human_bytes(r.compared_bytes));
}

/// Returns the parameters in the model's order. For a folder of Hugging Face only config.json defines the order.
std::vector<formats::wanted_tensor> wanted_of(const formats::tensor_source& s) {
  if (s.parameter_order.empty())
    if (const auto model = describe_model(s, {}))
      if (auto all = parameters_of(*model); !all.empty()) return all;
  return formats::parameters_of(s);
}

/// Returns "good", also with the restriction to files on this machine, or the number of damages.
std::string verdict_of(const formats::verify_report& r) {
  if (r.damages > 0) return fmt::format("{} damaged", r.damages);
  return r.elsewhere.empty() ? "good" : "good as far as it is on this machine";
}

std::string some_names(const formats::tensor_source& s) {
  std::vector<std::string> names;
  for (const auto& p : formats::parameters_of(s)) names.push_back(p.name);
  return formats::first_names(names);
}

core::error nothing_compared(const formats::tensor_source& first, const formats::tensor_source& second) {
  return {
      core::error_kind::mismatch,
      fmt::format("no tensor of one has its name in the other: '{}' holds {}, '{}' holds {}; map the names with "
                  "a file (--map)",
                  formats::shown_place(first), some_names(first), formats::shown_place(second), some_names(second))};
}

}  // namespace

int inspect_checkpoint(const source_arguments& a, output_form form, const std::string& model_config) {
  source_arguments quietly = a;
  quietly.as_stored = true;
  std::vector<std::string> said;
  quietly.note = [&](const std::string& line) { said.push_back(line); };
  std::optional<model_description> model;
  const auto s = open_checkpoint_at(quietly, model_config, &model);
  for (const auto& line : said)  // skips notes that are remarks of the source, because the output below contains those
    if (!s || std::ranges::find(s->found, line) == s->found.end()) note(a, line);
  if (!s) return ended_with(s.error());
  std::vector<std::string> given;
  if (!model_config.empty()) given.emplace_back("--model-config");
  if (!a.ignored_keys.empty()) given.emplace_back("--ignore-key");
  const auto acting =
      refuse_idle(given, {{model.has_value(), "--print-map, or an optimizer that numbers its tensors", given}});
  if (!acting) return ended_with(acting.error());
  const auto text = form == output_form::json ? formats::inspect_json(*s) : formats::inspect_text(*s);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

namespace {

core::result<std::string> names_of(const source_arguments& a, const std::string& model_config) {
  source_arguments as_it_is = a;
  as_it_is.map.clear();
  TROUPE_ASSIGN(const auto before, open_checkpoint_at(as_it_is, model_config));
  TROUPE_ASSIGN(auto lines, config::read_name_map(a.map));
  TROUPE_ASSIGN(const auto rules, formats::name_rules::of(lines));
  TROUPE_ASSIGN(const auto model, describe_model(before, model_config, a.ignored_keys));
  TROUPE_ASSIGN(auto mapped, rules.applied_to(before));
  const auto wanted = parameters_of(model);
  TROUPE_ASSIGN(const auto named, formats::named_by_layers(std::move(mapped), wanted));
  const formats::name_map find(named);
  std::map<std::string, std::string> in_model;
  for (const auto& w : wanted)
    if (const auto name = find.find(w.name)) in_model.emplace(*name, w.name);
  std::map<std::string, std::string> got;  // [name in the checkpoint]: name after the renaming
  const auto add = [&](const std::string& name) {
    const auto own = named.names_in_files.find(name);
    const auto at = in_model.find(name);
    got.emplace(own == named.names_in_files.end() ? name : own->second, at == in_model.end() ? name : at->second);
  };
  for (const auto& t : named.tensors) add(t.name);
  for (const auto& t : named.tied) add(t.name);
  std::vector<std::pair<std::string, std::string>> pairs;
  const auto take = [&](const std::string& name) {
    const auto in_file = before.names_in_files.find(name);
    const auto at = got.find(in_file == before.names_in_files.end() ? name : in_file->second);
    if (at != got.end()) pairs.emplace_back(name, at->second);
  };
  for (const auto& t : before.tensors)
    if (pairs.empty() || pairs.back().first != t.name) take(t.name);
  for (const auto& t : before.tied) take(t.name);
  return formats::printed_map(pairs);
}

}  // namespace

int print_names(const source_arguments& a, const std::string& model_config) {
  const auto text = names_of(a, model_config);
  if (!text) return ended_with(text.error());
  std::fwrite(text->data(), 1, text->size(), stdout);
  return 0;
}

int verify_checkpoint_at(const source_arguments& a) {
  const stop_request stop;
  source_arguments stored = a;
  stored.as_stored = true;
  const auto s = open_checkpoint_at(stored);
  if (!s) return ended_with(s.error());
  warn_of_left_out(a, *s);
  work_display display("reading", a.verbosity);
  const auto r = formats::verify_source(storage::real_files(), *s, display.progress());
  display.clear();
  if (!r) return ended_with(r.error());
  for (const auto& d : r->listed) print_error_line("troupe: error: " + d.text);
  if (r->damages > r->listed.size())
    std::fprintf(stderr, "troupe: error: and %llu more\n",
                 static_cast<unsigned long long>(r->damages - r->listed.size()));
  if (a.verbosity != verbosity::quiet)
    std::printf("%s\n", fmt::format("{}: {}: {} tensor{} in {} piece{}, {} read, {}", formats::shown_place(*s),
                                    verdict_of(*r), r->tensors, plural(r->tensors), r->pieces, plural(r->pieces),
                                    human_bytes(r->bytes), what_was_compared(*s, *r))
                            .c_str());
  if (a.verbosity != verbosity::quiet)
    for (const auto& [host, files] : r->elsewhere)
      std::printf("%s\n", fmt::format("not read, on the disk of {}: {}", host, formats::first_names(files)).c_str());
  return r->damages == 0 ? 0 : 1;
}

core::result<compared_checkpoints> compare_checkpoints(const diff_arguments& a) {
  if (a.tolerance && !(*a.tolerance >= 0 && std::isfinite(*a.tolerance)))
    return fail(core::error_kind::bad_input,
                fmt::format("--tolerance: wanted a finite number of at least 0, got {}", *a.tolerance));
  source_arguments other = a.first;
  other.as_stored = true;
  TROUPE_ASSIGN(auto first, open_checkpoint_at(other));
  other.path = a.second;
  other.tag = "";
  TROUPE_ASSIGN(auto second, open_checkpoint_at(other));
  warn_of_left_out(a.first, first);
  warn_of_left_out(a.first, second);
  // If the tensors of one checkpoint are named by pipeline layer, gives them the tensor names of the other one.
  if (!second.has_layer_names) {
    TROUPE_ASSIGN(first, formats::named_by_layers(std::move(first), wanted_of(second)));
  }
  if (!first.has_layer_names) {
    TROUPE_ASSIGN(second, formats::named_by_layers(std::move(second), wanted_of(first)));
  }
  TROUPE_ASSIGN(auto r, formats::diff_sources(storage::real_files(), first, second,
                                              {.tolerance = a.tolerance, .progress = a.first.progress}));
  return compared_checkpoints{std::move(first), std::move(second), std::move(r)};
}

int diff_checkpoints_at(const diff_arguments& a) {
  const stop_request stop;
  work_display display("comparing", a.first.verbosity);
  diff_arguments shown = a;
  shown.first.progress = display.progress();
  const auto compared = compare_checkpoints(shown);
  display.clear();
  if (!compared) {
    auto second = a.first;
    second.path = a.second;
    second.tag = "";
    return ended_with(with_way_around(with_way_around(compared.error(), a.first), second));
  }
  const auto* const r = &compared->report;
  if (r->tensors == 0 && !r->differences.empty()) {
    ended_with(nothing_compared(compared->first, compared->second));
    return 1;  // the checkpoints differ
  }
  if (a.first.verbosity != verbosity::quiet) {
    for (const auto& d : r->differences) std::printf("%s\n", d.text.c_str());
    if (r->left_out_moments > 0)
      std::printf("%llu moments not compared: one of the two has none\n",
                  static_cast<unsigned long long>(r->left_out_moments));
    std::printf("%s\n",
                fmt::format("{} tensor{} compared, {}: {}", r->tensors, plural(r->tensors), human_bytes(r->bytes),
                            r->differences.empty() ? (a.tolerance ? "equal within the tolerance" : "equal")
                                                   : fmt::format("{} differ{}", r->differences.size(),
                                                                 r->differences.size() == 1 ? "s" : ""))
                    .c_str());
  }
  return r->differences.empty() ? 0 : 1;
}

}  // namespace troupe::apps
