#include "apps/checkpoint/checkpoint_arguments.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "apps/base/exit_code.hpp"
#include "apps/checkpoint/model_description.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "config/document/name_map_file.hpp"
#include "core/text.hpp"
#include "formats/report/inspect.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/left_out.hpp"
#include "formats/trainer/numbered_states.hpp"

namespace troupe::apps {

namespace {

/// Returns the function that receives lines which even --quiet does not suppress.
std::function<void(const std::string&)> say_for(const source_arguments& a) {
  return a.note ? a.note : [](const std::string& line) { std::fprintf(stderr, "troupe: %s\n", line.c_str()); };
}

/// Returns the options with which the source is opened, without the names of --map.
formats::source_options options_without_map(const source_arguments& a) {
  formats::source_options out;
  if (!a.tag.empty()) out.tag = a.tag;
  out.fallback_to_previous = a.fallback_to_previous;
  out.older_by = a.older_by;
  out.say = say_for(a);
  out.wants = a.wants_weights ? formats::wanted_of_folder::weights : formats::wanted_of_folder::checkpoint;
  out.as_stored = a.as_stored;
  out.needs_states = !a.wants_weights && !a.as_stored;
  return out;
}

}  // namespace

core::error with_way_around(core::error e, const source_arguments& a) {
  return checkpoint::with_way_around(std::move(e), a.path, options_without_map(a));
}

void note(const source_arguments& a, const std::string& line) {
  if (a.note) return a.note(line);
  if (a.verbosity != verbosity::quiet) std::fprintf(stderr, "troupe: %s\n", line.c_str());
}

core::result<formats::tensor_source> open_checkpoint_at(const source_arguments& a,
                                                        const std::filesystem::path& model_config, bool* has_numbers) {
  auto options = options_without_map(a);
  TROUPE_ASSIGN(auto map, config::read_name_map(a.map));
  options.map = std::move(map);
  auto source = checkpoint::open_source(a.path, options);
  if (source && a.allow_overflow) source->clamped = std::make_shared<formats::clamped_values>();
  if (source && options.needs_states && source->lost_states)
    return fail(
        source->lost_states->why.kind,
        fmt::format("{}; the weights alone are written by to-hf, to-fp32 and to-gguf", source->lost_states->why.text));
  if (!source || source->numbered == nullptr) return source;
  if (has_numbers != nullptr) *has_numbers = true;
  TROUPE_ASSIGN(const auto model, describe_model(*source, model_config, a.ignored_keys));
  if (const auto order = parameters_of(model); order.empty())
    formats::leave_out_states(*source,
                              "it numbers its parameters, and the order of this model's parameters is not known here");
  else if (const auto ok = formats::name_states(*source, order); !ok)
    formats::leave_out_states(*source, ok.error().text);
  return source;
}

void warn_of_left_out(const source_arguments& a, const formats::tensor_source& s) {
  for (const auto& line : s.remarks)
    if (line.starts_with(formats::left_out_mark) || line.starts_with(formats::changed_mark)) warn_about(a, s, line);
}

void warn_about(const source_arguments& a, const formats::tensor_source& s, const std::string& line) {
  say_for(a)(fmt::format("warning: '{}': {}", formats::shown_place(s), line));
}

void warn_of_lost_samples(const source_arguments& a, const formats::tensor_source& s) {
  if (s.run.left_out.empty()) return;
  std::string steps;
  for (const auto& x : s.run.left_out) steps += fmt::format("{}{}-{}", steps.empty() ? "" : ", ", x.first, x.last);
  warn_about(a, s,
             fmt::format("its run left out the samples of steps {}, which the new checkpoint cannot record: a run "
                         "that resumes from it trains on them",
                         core::shown(steps)));
}

int ended_with(const core::error& e) {
  const int code = failed(e);
  return e.kind == error_kind::mismatch || e.kind == error_kind::limit ? 2 : code;
}

int ended(const core::result<void>& r) { return r ? 0 : ended_with(r.error()); }

core::result<core::dtype> dtype_from(const std::string& option, const std::string& text) {
  if (const auto type = core::float_dtype_from(text); type && *type != core::dtype::f64) return *type;
  return fail(error_kind::bad_input, fmt::format("{}: wanted fp32, bf16 or fp16, got '{}'", option, text));
}

}  // namespace troupe::apps
