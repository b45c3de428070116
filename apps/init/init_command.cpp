#include "apps/init/init_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <limits>

#include "apps/base/exit_code.hpp"
#include "core/number.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Asks one question on the terminal. Returns the answer, or `otherwise` if it is empty.
std::string ask(const std::string& question, const std::string& otherwise) {
  std::printf("%s%s ", question.c_str(), otherwise.empty() ? "" : fmt::format(" [{}]", otherwise).c_str());
  std::fflush(stdout);
  std::string answer;
  if (!std::getline(std::cin, answer)) return otherwise;
  const auto said = core::trimmed(answer, " \t\r");
  return said.empty() ? otherwise : std::string(said);
}

core::result<uint64_t> ask_number(const std::string& question, uint64_t otherwise) {
  const std::string answer = ask(question, fmt::to_string(otherwise));
  if (const auto value = core::number_of<uint64_t>(answer); value && *value > 0) return *value;
  return core::fail(core::error_kind::bad_input,
                    fmt::format("{} wanted an integer of at least 1, got {}", question, core::shown(answer)));
}

/// Asks the questions that neither an option nor the source has answered. Stops at an unusable answer.
core::result<void> ask_all(first_job_answers& a, const source_says& known) {
  if (a.model.empty() && !known.model)
    a.model = ask(fmt::format("Model ({}, or a Hugging Face folder)?", fmt::join(model_sizes(), ", ")), "10M");
  TROUPE_TRY(check_answers(a));
  if (data_of(a).path.empty() && !known.text) {
    name_data(a, ask("Text, conversations, prompts with answers or tokens to train on (a file or a folder)?", ""));
    TROUPE_TRY(check_answers(a));
    if (const auto named = data_of(a); !named.path.empty() && a.text.empty())
      std::printf("they are read as %s\n", std::string(named.key).c_str());
  }
  TROUPE_TRY(check_answers(a));
  std::error_code e;
  const bool has_own = fs::is_directory(a.model, e) && data::has_vocabulary(a.model);
  if (a.tokenizer.empty() && !known.tokenizer && !has_own)
    a.tokenizer = ask("Tokenizer (bytes, a tokenizer.json, .model or .gguf, or a folder with one)?", "bytes");
  TROUPE_TRY(check_answers(a));
  if (a.steps == 0 && !known.steps) {
    TROUPE_ASSIGN(const auto n, ask_number("Steps?", 1000));
    a.steps = n;
  }
  if (a.samples == 0 && !known.samples) {
    TROUPE_ASSIGN(const auto n, ask_number("Samples of a step?", 16));
    a.samples = n;
  }
  if (a.spill.empty()) a.spill = ask("A folder on a fast disk for states that do not fit?", "/var/tmp/troupe");
  return {};
}

core::result<void> write(const fs::path& file, const std::string& text) {
  std::error_code e;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), e);
  if (e) return core::fail(core::path_error("make the folder", file.parent_path(), e.value()));
  const auto status = fs::status(file, e);
  if (fs::exists(status) && !fs::is_regular_file(status))
    return core::refused(fmt::format("cannot write '{}': a regular file was wanted", file.string()));
  return storage::write_file_atomically(fs::exists(status) ? fs::canonical(file, e) : file, text);
}

}  // namespace

init_command::init_command(CLI::App& parent)
    : program_command(parent, "init", "write a job's file to begin with, which fits this machine") {
  command_->add_option("file", file_, "the file to write")->capture_default_str();
  command_->add_option("--from", from_,
                       "a ds_config.json, Accelerate's YAML, or a checkpoint of any format: its values are kept");
  command_->add_option("--model", answers_.model,
                       fmt::format("{}, or a Hugging Face folder", fmt::join(model_sizes(), ", ")));
  command_->add_option("--text", answers_.text, "text to train on: a file or a folder");
  command_->add_option("--chat", answers_.chat,
                       "conversations to train on, in place of a text: JSON lines, a JSON array, Parquet or Arrow");
  command_->add_option("--instruct", answers_.instruct, "prompts with answers to train on, in place of a text");
  command_->add_option("--labelled", answers_.labelled,
                       "tokens with labels to train on, in place of a text: also Arrow or .npy of input_ids");
  command_->add_option("--tokenizer", answers_.tokenizer,
                       "bytes, a tokenizer.json, .model or .gguf, or a folder with one; without it the model's own");
  command_
      ->add_option(
          "--ignore-key", answers_.ignored_keys,
          "a key of the model's config.json to read as if it were not there (model.ignore_keys); may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  const auto at_least_one = CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max());
  command_->add_option("--steps", answers_.steps, "optimizer steps")->check(at_least_one);
  command_->add_option("--samples", answers_.samples, "samples of a step, over all ranks")->check(at_least_one);
  command_->add_option("--spill", spill_, "a folder on a fast disk for states that do not fit into memory");
  command_->add_flag("--force", force_, "overwrite an existing file");
}

int init_command::run() {
  answers_.file = file_;
  answers_.from = from_;
  answers_.spill = spill_;
  std::error_code e;
  if (!force_ && fs::exists(answers_.file, e))
    return failed({core::error_kind::bad_input, fmt::format("{} exists already; give --force to overwrite it", file_)});
  source_says known;
  if (!answers_.from.empty()) {
    const auto said = look_at_source(answers_.from, answers_.ignored_keys);
    if (!said) return failed(said.error());
    known = *said;
  }
  if (::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0)
    if (const auto ok = ask_all(answers_, known); !ok) return failed(ok.error());
  const auto job = make_first_job(answers_, look_at_machine());
  if (!job) return failed(job.error());
  if (const auto ok = write(answers_.file, job->yaml); !ok) return failed(ok.error());
  for (const auto& one : job->remarks) std::printf("%s\n", one.c_str());
  std::printf("%s: written; troupe plan %s says what it needs, troupe train %s runs it\n", file_.c_str(), file_.c_str(),
              file_.c_str());
  return 0;
}

}  // namespace troupe::apps
