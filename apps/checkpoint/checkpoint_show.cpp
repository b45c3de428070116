#include "apps/checkpoint/checkpoint_show.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "apps/base/stop_request.hpp"
#include "apps/base/work_display.hpp"
#include "apps/checkpoint/model_description.hpp"
#include "checkpoint/source/diff.hpp"
#include "checkpoint/source/inspect.hpp"
#include "checkpoint/source/layer_names.hpp"
#include "checkpoint/source/verify.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

using core::human_bytes;

const char* plural(uint64_t n) { return n == 1 ? "" : "s"; }

/// What a reader of the verdict must know of the format.
std::string what_was_compared(const checkpoint::tensor_source& s, const checkpoint::verify_report& r) {
  if (s.has_digests) return fmt::format("{} against their digests", human_bytes(r.compared_bytes));
  if (r.compared_bytes == 0)
    return "the format has no digests: names, shapes and places are right and every byte can be read";
  return fmt::format("{} against the archives' CRC-32; the format has no other digests", human_bytes(r.compared_bytes));
}

/// In the model's order, which a folder of Hugging Face's says by its description alone.
std::vector<checkpoint::wanted_tensor> wanted_of(const checkpoint::tensor_source& s) {
  if (s.parameter_order.empty())
    if (const auto model = describe_model(s, {}))
      if (auto all = parameters_of(*model); !all.empty()) return all;
  return checkpoint::parameters_of(s);
}

std::string some_names(const checkpoint::tensor_source& s) {
  std::vector<std::string> names;
  for (const auto& p : checkpoint::parameters_of(s)) names.push_back(p.name);
  return checkpoint::first_names(names);
}

core::error nothing_compared(const checkpoint::tensor_source& first, const checkpoint::tensor_source& second) {
/// "good", or that all is good that lies on this machine.
std::string verdict_of(const checkpoint::verify_report& r) {
  if (r.damages > 0) return fmt::format("{} damaged", r.damages);
  return r.elsewhere.empty() ? "good" : "good as far as it lies on this machine";
}

  return {core::error_kind::mismatch,
          fmt::format("no tensor of one has its name in the other: '{}' holds {}, '{}' holds {}; a file of names "
                      "(--map) says which is which",
                      checkpoint::shown_place(first), some_names(first), checkpoint::shown_place(second),
                      some_names(second))};
}

}  // namespace

int inspect_checkpoint(const source_arguments& a, output_form form) {
  const auto s = open_checkpoint_at(a);
  if (!s) return ended_with(s.error());
  const auto text = form == output_form::json ? checkpoint::inspect_json(*s) : checkpoint::inspect_text(*s);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

int verify_checkpoint_at(const source_arguments& a) {
  const stop_request stop;
  const auto s = open_checkpoint_at(a);
  if (!s) return ended_with(s.error());
  work_display display("reading", a.verbosity);
  const auto r = checkpoint::verify_source(checkpoint::real_files(), *s, display.progress());
  display.clear();
  if (!r) return ended_with(r.error());
  for (const auto& d : r->listed) std::fprintf(stderr, "troupe: error: %s\n", d.text.c_str());
  if (r->damages > r->listed.size())
    std::fprintf(stderr, "troupe: error: and %llu more\n",
                 static_cast<unsigned long long>(r->damages - r->listed.size()));
  if (a.verbosity != verbosity::quiet)
    std::printf("%s\n", fmt::format("{}: {}: {} tensor{} in {} piece{}, {} read, {}", checkpoint::shown_place(*s),
                                    verdict_of(*r), r->tensors, plural(r->tensors), r->pieces, plural(r->pieces),
                                    human_bytes(r->bytes), what_was_compared(*s, *r))
                            .c_str());
  return r->damages == 0 ? 0 : 1;
}

core::result<compared_checkpoints> compare_checkpoints(const diff_arguments& a) {
  using core::fail;
  if (a.tolerance && !(*a.tolerance >= 0))
    return fail(core::error_kind::bad_input, fmt::format("--tolerance: wanted at least 0, got {}", *a.tolerance));
  auto first = open_checkpoint_at(a.first);
  if (!first) return fail(first.error());
  source_arguments other = a.first;
  other.path = a.second;
  other.tag = "";
  auto second = open_checkpoint_at(other);
  if (!second) return fail(second.error());
  // Layers without names get those of the other one.
  if (!second->has_layer_names) first = checkpoint::named_by_layers(std::move(*first), wanted_of(*second));
  if (!first) return fail(first.error());
  if (!first->has_layer_names) second = checkpoint::named_by_layers(std::move(*second), wanted_of(*first));
  if (!second) return fail(second.error());
  auto r = checkpoint::diff_sources(checkpoint::real_files(), *first, *second,
                                    {.tolerance = a.tolerance, .progress = a.first.progress});
  if (!r) return fail(r.error());
  return compared_checkpoints{std::move(*first), std::move(*second), std::move(*r)};
}

int diff_checkpoints_at(const diff_arguments& a) {
  const stop_request stop;
  work_display display("comparing", a.first.verbosity);
  diff_arguments shown = a;
  shown.first.progress = display.progress();
  const auto compared = compare_checkpoints(shown);
  display.clear();
  if (!compared) return ended_with(compared.error());
  const auto* const r = &compared->report;
  if (r->tensors == 0 && !r->differences.empty()) {
    ended_with(nothing_compared(compared->first, compared->second));
    return 1;  // they differ
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
  if (a.verbosity != verbosity::quiet)
    for (const auto& [host, files] : r->elsewhere)
      std::printf("%s\n", fmt::format("not read, on the disk of {}: {}", host, checkpoint::first_names(files)).c_str());
