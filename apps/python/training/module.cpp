// Owns the extension module `troupe._training`: opens, steps, saves and closes sessions of Python. Leaves the public
// functions and the form of results to python/troupe/training.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/python/training/python_session.hpp"
#include "apps/python/training/python_values.hpp"
#include "config/load.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace troupe::apps {
namespace {

using path = std::filesystem::path;

std::unique_ptr<python_session> open_session(const std::optional<path>& file, const std::optional<std::string>& text,
                                             const std::optional<nb::dict>& keys, const std::vector<std::string>& set,
                                             std::optional<uint64_t> steps, const std::optional<path>& resume,
                                             bool keeps_folder, bool fresh, const std::optional<path>& export_folder,
                                             const path& programs) {
  job_settings settings;
  if (file) settings.from = *file;
  if (text) settings.from = yaml_text{*text};
  if (keys) settings.from = builder_of(*keys);
  settings.set = set;
  settings.steps = steps;
  settings.resume = resume.value_or(path());
  const session_wishes wishes{keeps_folder, {fresh, resume.has_value(), export_folder.value_or(path())}, programs};
  constexpr int of_the_caller = 3;  // two functions of training.py are between it and this one
  auto out = std::make_unique<python_session>();
  try {
    interruptible([&](const storage::progress_function& goes_on) {
      return out->work.open(settings, wishes, [&] { return goes_on(0, 0); });
    });
  } catch (...) {
    tell(out->work, of_the_caller);
    throw;
  }
  out->steps_done = out->work.session().steps_done();
  tell(out->work, of_the_caller);
  return out;
}

void close_session(python_session& s) {
  if (s.is_busy) refuse_call("Session.close: another call of this session runs; stop() ends it");
  if (!s.work.is_open()) return;
  s.is_busy = s.is_closing = true;
  {
    const nb::gil_scoped_release others_run;
    s.work.close();
  }
  s.is_busy = false;
}

void stop_session(python_session& s, const std::string& why) {
  if (s.work.is_open() && !s.is_closing) s.work.session().stop(why);
}

/// Returns (number of steps of the job, tokens of a sample, tokens of the validation part, steps between evaluations,
/// batches of an evaluation, names of the validation sets, configuration as YAML).
nb::tuple facts(python_session& s) {
  const call_scope held(s, "Session");
  const auto& config = s.work.loaded().config;
  const auto& session = s.work.session();
  return nb::make_tuple(config.steps, session.sequence(), session.validation_tokens(), config.evaluation.every_steps,
                        config.evaluation.batches, session.validation_sets(),
                        text_of(config::effective_yaml(s.work.loaded())));
}

/// Returns (name, shape, whether it is trained) of each parameter.
nb::list parameters(python_session& s) {
  const call_scope held(s, "Session.parameters");
  nb::list out;
  for (const auto& p : s.work.session().table().parameters)
    if (!p.is_copy() && !p.of_teacher) out.append(nb::make_tuple(text_of(p.name), shape_tuple(p.shape), p.trainable));
  return out;
}

nb::object spike_of(const std::optional<actors::loss_spike>& s) {
  if (!s) return nb::none();
  return nb::make_tuple(s->step, s->loss, s->usual, s->back_to, s->first, s->last);
}

nb::tuple step(python_session& s) {
  const auto r = call(s, "Session.step", [](training_session& t, const auto&) { return t.step(); });
  return nb::make_tuple(r.step, r.loss, r.lr, r.grad_norm, r.loss_scale, r.skipped, r.seconds, r.tokens, r.counted,
                        r.save_asked, spike_of(r.spike));
}

nb::object evaluate(python_session& s, uint64_t batches, const std::string& set) {
  return number_or_none(call(s, "Session.evaluate", [&](training_session& t, const auto& goes_on) {
    return t.evaluate(batches, set, [&] { return goes_on(0, 0); });
  }));
}

double next_loss(python_session& s) {
  return call(s, "Session.next_loss", [](training_session& t, const auto&) { return t.session().next_loss(); });
}

std::vector<int64_t> generate(python_session& s, const std::vector<int64_t>& prompt, uint64_t tokens,
                              double temperature, const std::vector<int64_t>& ends) {
  return call(s, "Session.generate", [&](training_session& t, const auto&) {
    return t.session().generate(prompt, tokens, temperature, ends);
  });
}

core::result<data::tokenizer*> tokenizer_of(training_session& t) {
  data::tokenizer* const out = t.session().tokenizer();
  if (out != nullptr) return out;
  return core::refused("the tokenizer of the tokens is not known: set data.tokenizer");
}

std::vector<uint32_t> encode(python_session& s, const std::string& text) {
  return call(s, "Session.encode", [&](training_session& t, const auto&) -> core::result<std::vector<uint32_t>> {
    TROUPE_ASSIGN(auto* const by, tokenizer_of(t));
    std::vector<uint32_t> out;
    TROUPE_TRY(by->encode(text, out));
    return out;
  });
}

nb::object decode(python_session& s, const std::vector<uint32_t>& tokens) {
  return text_of(call(s, "Session.decode", [&](training_session& t, const auto&) -> core::result<std::string> {
    TROUPE_ASSIGN(auto* const by, tokenizer_of(t));
    return by->decode(tokens);
  }));
}

path save(python_session& s, const path& root, const std::string& tag, const std::string& client_state,
          bool save_latest, uint32_t keep_last, uint64_t keep_every, bool exclude_frozen_parameters) {
  return call(s, "Session.save", [&](training_session& t, const auto&) {
    return t.session().save({.root = std::filesystem::absolute(root),
                             .configuration = config::effective_yaml(t.loaded()),
                             .client_state = client_state,
                             .keep_last = keep_last,
                             .keep_every = keep_every,
                             .exclude_frozen_parameters = exclude_frozen_parameters,
                             .tag = tag,
                             .save_latest = save_latest});
  });
}

nb::tuple load(python_session& s, const path& from, const std::optional<std::string>& tag,
               const std::optional<path>& map, bool strict, bool optimizer_states, bool lr_scheduler_states,
               bool module_only, bool fallback_to_previous) {
  const auto loaded = call(s, "Session.load", [&](training_session& t, const auto&) {
    actors::load_options options;
    options.tag = tag;
    options.map = map.value_or(path());
    options.load_module_strict = strict;
    options.load_optimizer_states = optimizer_states;
    options.load_lr_scheduler_states = lr_scheduler_states;
    options.load_module_only = module_only;
    options.fallback_to_previous = fallback_to_previous;
    return t.session().load(from, std::move(options));
  });
  return nb::make_tuple(loaded.folder, text_of(loaded.client_state));
}

nb::object client_state(python_session& s) {
  const call_scope held(s, "Session.client_state");
  return text_of(s.work.session().client_state());
}

void export_hugging_face(python_session& s, const path& folder, uint64_t max_shard_bytes) {
  call(s, "Session.export_hugging_face",
       [&](training_session& t, const auto&) { return t.export_hugging_face(folder.string(), max_shard_bytes); });
}

void record(python_session& s, const std::string& name, double value) {
  const call_scope held(s, "Session.record");
  value_or_throw(s.work.session().record(name, value));
}

}  // namespace
}  // namespace troupe::apps

NB_MODULE(_training, m) {
  using namespace troupe::apps;
  share_error(m);
  const auto none = nb::none();
  session_class session(m, "Session");
  session.def_ro("steps_done", &python_session::steps_done)
      .def_prop_ro("is_open", [](const python_session& s) { return s.work.is_open() && !s.is_closing; })
      .def("facts", facts)
      .def("parameters", parameters)
      .def("step", step)
      .def("evaluate", evaluate, "batches"_a, "set"_a)
      .def("next_loss", next_loss)
      .def("generate", generate, "prompt"_a, "tokens"_a, "temperature"_a, "ends"_a)
      .def("encode", encode, "text"_a)
      .def("decode", decode, "tokens"_a)
      .def("save", save, "root"_a, "tag"_a, "client_state"_a, "save_latest"_a, "keep_last"_a, "keep_every"_a,
           "exclude_frozen_parameters"_a)
      .def("load", load, "path"_a, "tag"_a.none(), "map"_a.none(), "strict"_a, "optimizer_states"_a,
           "lr_scheduler_states"_a, "module_only"_a, "fallback_to_previous"_a)
      .def("client_state", client_state)
      .def("export_hugging_face", export_hugging_face, "folder"_a, "max_shard_bytes"_a)
      .def("record", record, "name"_a, "value"_a)
      .def("stop", stop_session, "why"_a)
      .def("close", close_session);
  add_states(session);
  add_own_loop(session);
  add_kept_run(session);
  m.def("open", open_session, "file"_a = none, "text"_a = none, "keys"_a = none, "set"_a = std::vector<std::string>(),
        "steps"_a = none, "resume"_a = none, "keeps_folder"_a = false, "fresh"_a = false, "export_folder"_a = none,
        "programs"_a = path());
}
