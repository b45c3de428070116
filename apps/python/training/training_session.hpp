// A session as Python's module uses it: opened from settings, with its warnings, and with the folder of a run where
// `troupe.train` wants one. Owns what happens around each call; independent of Python.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/session/session.hpp"
#include "apps/python/training/job_settings.hpp"
#include "apps/python/training/kept_run.hpp"
#include "config/load.hpp"
#include "core/error.hpp"
#include "job/kept_costs.hpp"

namespace troupe::apps {

struct session_wishes {
  bool keeps_folder = false;         ///< true: the session keeps a run's folder, as `kept` says (kept_run.hpp)
  kept_wishes kept{};                ///< used only with `keeps_folder`
  std::filesystem::path programs{};  ///< folder of Troupe's programs, near which libtroupe_cuda.so is searched
};

/// One session. A caller calls one function at a time; stop() may be called from any thread.
class training_session {
 public:
  /// Returns false to end the work that runs.
  using go_on = std::function<bool()>;

  training_session() = default;
  training_session(const training_session&) = delete;
  training_session& operator=(const training_session&) = delete;

  /// Opens the session; called once. Errors: those of load_job() and session::open, stopped.
  core::result<void> open(const job_settings& settings, const session_wishes& wishes, const go_on& goes_on);
  /// Ends the session and releases what it has; does nothing if it is not open.
  void close();
  [[nodiscard]] bool is_open() const { return session_ != nullptr; }

  /// The session and its configuration; only if is_open().
  [[nodiscard]] actors::session& session() { return *session_; }
  [[nodiscard]] const config::loaded& loaded() const { return *loaded_; }

  core::result<actors::step_report> step();
  /// Returns the mean loss over `batches` of the validation set `set` (0: all; empty: the first set); nothing if
  /// `goes_on` has ended it early.
  core::result<std::optional<double>> evaluate(uint64_t batches, const std::string& set, const go_on& goes_on);
  /// Returns the run that is kept; only for a session with session_wishes::keeps_folder.
  [[nodiscard]] kept_run& kept() { return *kept_; }
  [[nodiscard]] bool keeps_folder() const { return kept_ != nullptr; }
  /// Writes a folder of Hugging Face with the files next to the model that its users need, such as the tokenizer's.
  core::result<void> export_hugging_face(const std::string& folder, uint64_t max_shard_bytes);

  /// Return the warnings, and the lines of text that the configuration asks for, since the last call.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }
  std::vector<std::string> take_lines() { return std::exchange(lines_, {}); }

 private:
  [[nodiscard]] actors::session_hooks hooks();
  core::result<void> choose_degrees(const std::optional<job::model_of_kept>& kept);
  core::result<void> open_session(const session_wishes& wishes);

  std::vector<std::string> warnings_, lines_;
  go_on goes_on_;                             // asked while the session opens; empty at other times
  std::optional<config::loaded> loaded_;      // declared before what refers to it
  std::unique_ptr<kept_run> kept_;            // null: no folder is kept
  std::unique_ptr<actors::session> session_;  // declared last, because its hooks use the other members
};

}  // namespace troupe::apps
