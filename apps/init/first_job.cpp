#include "apps/init/first_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "apps/base/job_rules.hpp"
#include "apps/base/programs.hpp"
#include "apps/init/data_check.hpp"
#include "apps/init/data_form.hpp"
#include "apps/init/job_source.hpp"
#include "apps/init/job_text.hpp"
#include "apps/machine/machine.hpp"
#include "apps/plan/plan_fit.hpp"
#include "checkpoint/convert/folder_contents.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "config/keys/values.hpp"
#include "config/load.hpp"
#include "core/number.hpp"
#include "core/sample_types.hpp"
#include "core/system/cores.hpp"
#include "core/text.hpp"
#include "data/formats/files.hpp"
#include "data/token_file.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/vocabulary_files.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "families/all_families.hpp"
#include "formats/gguf/source.hpp"
#include "job/blueprint.hpp"
#include "models/table/config_keys.hpp"
#include "models/table/model_spec.hpp"
#include "plan/choose/tier_search.hpp"
#include "plan/show/tier_ladder.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

struct model_size {
  const char* name;
  uint32_t layers, width, heads, positions;
};
constexpr model_size sizes[] = {{"1M", 4, 128, 4, 128},       {"10M", 8, 320, 5, 256},
                                {"30M", 8, 512, 8, 512},      {"124M", 12, 768, 12, 1024},
                                {"355M", 24, 1024, 16, 1024}, {"774M", 36, 1280, 20, 1024},
                                {"1558M", 48, 1600, 25, 1024}};

/// Fraction of the free memory that a job may use; the remainder is left to the system and the page cache.
constexpr double memory_share = 0.8;
/// Number of samples in a rank's micro-batch, unless memory requires fewer.
constexpr uint64_t micro_batch = 4;
constexpr uint64_t usual_samples = 16;
constexpr uint64_t ranks_max = uint64_t{1} << 20;
constexpr const char* usual_validation = "0.05";
/// Keys that name the data of a run.
constexpr const char* data_keys[] = {"data.text", "data.chat", "data.instruct", "data.labelled", "data.sources"};
/// Learning rates that a job for a new model, and one for a trained model, begins with.
constexpr const char* first_rate = "6.0e-4";
constexpr const char* tuning_rate = "2.0e-5";
/// Number of tokens in a sample for a trained model that can read longer samples.
constexpr uint32_t longest_sequence = 1024;

uint32_t ranks_for(const machine_offer& m) { return m.cores >= 32 ? 8 : m.cores >= 8 ? 4 : m.cores >= 2 ? 2 : 1; }

const model_size* size_of(const std::string& model) {
  const auto* const found = std::ranges::find_if(sizes, [&](const model_size& s) { return model == s.name; });
  return found == std::end(sizes) ? nullptr : found;
}

/// An option that names data, its answer, and a word for such data in messages.
struct data_answer {
  std::string_view option;
  const std::string* path;
  std::string_view what;
};
std::array<data_answer, 4> data_answers(const first_job_answers& a) {
  return {{{"--text", &a.text, "text"},
           {"--chat", &a.chat, "conversations"},
           {"--instruct", &a.instruct, "prompts with answers"},
           {"--labelled", &a.labelled, "tokens with labels"}}};
}

/// Returns why a checkpoint does not describe its model, as the end of a sentence that begins with its path.
std::string why_without_model(const fs::path& from) {
  const auto source = checkpoint::open_source(from);
  const auto keys = source ? formats::gguf_metadata_of(*source) : core::result<formats::gguf_metadata>();
  const std::string architecture = keys ? keys->text("general.architecture") : std::string();
  if (architecture.empty()) return "does not say its model";
  return fmt::format("has the architecture {}, which is not known here{}", core::shown(architecture),
                     families::nearest_gguf_note(architecture));
}

core::result<uint64_t> vocabulary_of(const std::string& tokenizer) {
  if (tokenizer.empty() || data::is_word_for_bytes(tokenizer)) return data::byte_vocabulary_size;
  const auto opened = data::open_tokenizer(tokenizer);
  if (!opened) return fail(error_kind::bad_input, "--tokenizer: " + opened.error().text);
  return (*opened)->vocab_size();
}

class maker {
 public:
  maker(const first_job_answers& a, const machine_offer& machine) : a_(a), machine_(machine) {
    std::error_code e;
    folder_ = fs::absolute(a.file, e).parent_path();
  }

  core::result<first_job> make() {
    text_.note("yaml-language-server: $schema=" + schema_place());
    text_.note(fmt::format("Made for {} ({} cores, {} free); `troupe plan` and `troupe train` take it.",
                           machine_.processor.empty() ? "this machine" : machine_.processor, machine_.cores,
                           core::human_bytes(double(machine_.memory_bytes))));
    if (!a_.from.empty()) {
      TROUPE_ASSIGN(const auto steps, put_source(text_, given_, a_.from, folder_, a_.ignored_keys));
      steps_done_ = steps;
    }
    TROUPE_TRY(put_model());
    TROUPE_TRY(put_ignored_keys());
    TROUPE_TRY(put_data());
    put_rest();
    TROUPE_TRY(check_steps());
    TROUPE_TRY(fit());
    return first_job{text_.yaml(), std::move(remarks_)};
  }

 private:
  [[nodiscard]] bool has(std::string_view key) const { return text_.has(key) || given_.contains(std::string(key)); }

  /// Returns the path of the JSON schema of configuration files next to the installed examples; without one, the name
  /// of a file to which the user can write the output of `troupe config schema`.
  [[nodiscard]] std::string schema_place() const {
    std::error_code e;
    const fs::path installed = own_folder().parent_path() / "share/troupe/examples/troupe.schema.json";
    return fs::is_regular_file(installed, e) ? installed.string() : "troupe.schema.json";
  }

  core::result<void> put_model() {
    const bool is_said = text_.has_below("model"), is_loaded = has("checkpoint.load.path") || has("model.path");
    if (is_said && is_loaded && !a_.model.empty())
      return fail(
          error_kind::bad_input,
          fmt::format(
              "--model: cannot be combined with --from {}, which describes its model; leave one of them out, got {}",
              core::shown(a_.from.string()), core::shown(a_.model)));
    if (a_.model.empty() && is_said) return {};
    if (a_.model.empty() && is_loaded)
      return fail(error_kind::bad_input, fmt::format("--model: wanted one of {} or a Hugging Face folder, since {} {}, "
                                                     "got none",
                                                     fmt::join(model_sizes(), ", "), core::shown(a_.from.string()),
                                                     why_without_model(a_.from)));
    const std::string name = a_.model.empty() ? "10M" : a_.model;
    text_.drop("model");
    std::error_code e;
    if (fs::is_directory(name, e)) {
      text_.put("model.path", path_in_file(name, folder_));
      return {};
    }
    const auto* const size = size_of(name);
    text_.put("model.model_type", "gpt2");
    for (const auto& [key, value] : {std::pair{"n_layer", size->layers},
                                     {"n_embd", size->width},
                                     {"n_head", size->heads},
                                     {"n_positions", size->positions}})
      text_.put(fmt::format("model.{}", key), fmt::to_string(value));
    for (const char* key : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) text_.put(fmt::format("model.{}", key), "0");
    vocabulary_is_open_ = true;
    return {};
  }

  core::result<void> put_ignored_keys() {
    if (a_.ignored_keys.empty()) return {};
    if (!has("model.path") && !has("model.teacher") && !has("checkpoint.load.path"))
      return fail(error_kind::bad_input,
                  fmt::format("--ignore-key: wanted a config.json that has the key {}: give its folder as --from or "
                              "--model",
                              core::shown(a_.ignored_keys.front())));
    std::error_code e;
    if (!a_.model.empty() && fs::is_directory(a_.model, e))
      if (const auto spec = models::read_spec(a_.model, a_.ignored_keys))
        if (const auto absent = models::absent_key(spec->hugging_face_json, a_.ignored_keys))
          return fail(error_kind::bad_input,
                      fmt::format("--ignore-key: the config.json of '{}' {}", core::shown(a_.model), *absent));
    std::string list;
    for (const auto& key : a_.ignored_keys) list += (list.empty() ? "" : ", ") + config::quoted(key);
    text_.put("model.ignore_keys", "[" + list + "]");
    return {};
  }

  core::result<void> put_data() {
    if (const auto named = data_of(a_); !named.path.empty()) {
      const bool is_text = named.key == "data.text";
      if (is_text ? is_other_text() : names_data() && has("checkpoint.load.path"))
        text_.put("checkpoint.load.changed_data", "true");
      for (const char* other : data_keys)
        if (other != named.key) text_.drop(other);
      text_.put(named.key, path_in_file(named.path, folder_));
      // Samples of which an answer would be cut away teach nothing, and a longer one must not end the run.
      if (!is_text && !has("data.too_long")) text_.put("data.too_long", "drop");
    } else if (!names_data()) {
      return fail(error_kind::bad_input,
                  "--text: wanted a file or folder of text to train on (or conversations as --chat, prompts with "
                  "answers as --instruct, tokens with labels as --labelled), got none");
    }
    TROUPE_ASSIGN(const auto vocabulary, vocabulary_of(a_.tokenizer));
    TROUPE_TRY(put_tokenizer());
    if (vocabulary_is_open_) text_.put("model.vocab_size", fmt::to_string(vocabulary));
    if (!has("data.validation_fraction")) {
      text_.put("data.validation_fraction", usual_validation);
      validates_by_itself_ = true;
    }
    return {};
  }

  /// True if the imported source names the data of its run.
  [[nodiscard]] bool names_data() const {
    return std::ranges::any_of(data_keys, [&](const char* key) { return has(key); });
  }

  /// True if the new job continues a run from its checkpoint (`--from`), and `--text` is not the text of that run.
  [[nodiscard]] bool is_other_text() const {
    if (!has("checkpoint.load.path") || !names_data()) return false;
    std::error_code e;
    const fs::path whole = fs::absolute(a_.text, e).lexically_normal();
    return text_.value_of("data.text") != config::quoted(whole.string());
  }

  /// Refuses a value of `--steps` that is not above the number of steps which the continued run has done. If the number
  /// comes from the continued run's own configuration, only adds a remark.
  core::result<void> check_steps() {
    const uint64_t steps = number_of("steps");
    if (steps_done_ == 0 || steps > steps_done_) return {};
    if (a_.steps > 0)
      return fail(
          error_kind::bad_input,
          fmt::format("--steps: wanted more than the {} that '{}' has done, which the new run continues, got {}",
                      steps_done_, core::shown(a_.from.string()), a_.steps));
    remarks_.push_back(fmt::format("nothing is left to train: '{}' has done {} steps of {}; give more by --steps",
                                   core::shown(a_.from.string()), steps_done_, steps));
    return {};
  }

  core::result<void> put_tokenizer() {
    const bool is_word = data::is_word_for_bytes(a_.tokenizer);
    if (is_word)
      text_.put("data.tokenizer", a_.tokenizer);
    else if (!a_.tokenizer.empty())
      text_.put("data.tokenizer", path_in_file(a_.tokenizer, folder_));
    else if (!has("data.tokenizer"))
      return put_models_tokenizer();
    return {};
  }

  /// Sets data.tokenizer to the tokenizer in the model's folder, or to bytes if the folder has none. If the text
  /// consists of tokens already, sets only the model's tokenizer, and only if the tokens have a description, because a
  /// run compares that with the tokenizer.
  core::result<void> put_models_tokenizer() {
    const auto tokens = files_of_tokens();
    const fs::path beside = tokenizer_beside();
    const auto is_described = [](const fs::path& file) { return data::description_of(file).has_value(); };
    if (!tokens.empty() && std::ranges::none_of(tokens, is_described)) return {};
    if (beside.empty()) {
      if (tokens.empty() && a_.labelled.empty()) text_.put("data.tokenizer", "bytes");
      return {};
    }
    if (const auto opened = data::open_tokenizer(beside); !opened)
      return fail(
          error_kind::bad_input,
          tokens.empty()
              ? fmt::format("the model's tokenizer cannot be read: {}; tokenize the text with a program of the model's "
                            "and give the tokens (.bin) as --text, or give another tokenizer by --tokenizer ({} feeds "
                            "bytes in any case)",
                            opened.error().text, data::bytes_as_ids)
              : fmt::format("the model's tokenizer cannot be read: {}; so the tokens of {} cannot be compared with it: "
                            "if they are the model's, give the tokenizer that made them by --tokenizer",
                            opened.error().text, core::shown(a_.text)));
    text_.put("data.tokenizer", path_in_file(beside, folder_));
    return {};
  }

  /// Returns the files of `--text` if they contain tokens instead of text; else none.
  [[nodiscard]] std::vector<fs::path> files_of_tokens() const {
    if (a_.text.empty()) return {};
    const auto listed = data::source_files(a_.text);
    if (!listed || listed->files.empty() || data::kind_of(listed->files.front()) != data::source_kind::tokens)
      return {};
    return listed->files;
  }

  /// Returns the model's folder, or its GGUF file, if it has a tokenizer; empty if not.
  [[nodiscard]] fs::path tokenizer_beside() const {
    for (const fs::path& place : {fs::path(a_.model), a_.from})
      if (!place.empty() && data::has_vocabulary(place)) return place;
    return {};
  }

  /// True if the job starts training from trained weights, as opposed to random ones.
  [[nodiscard]] bool is_trained() const {
    if (has("checkpoint.load.path")) return true;
    if (!has("model.path")) return false;
    const fs::path folder = fs::is_directory(a_.model) ? fs::path(a_.model) : a_.from;
    const auto format = checkpoint::recognise(folder);
    return format && (*format)->is_model_folder;
  }

  /// Limits the sequence length if training begins from trained weights: samples of the model's full length would fill
  /// the memory, and shorter ones suffice.
  void put_sequence() {
    if (!is_trained() || has("data.sequence_length")) return;
    if (positions() > longest_sequence) text_.put("data.sequence_length", fmt::to_string(longest_sequence));
  }

  /// Returns the most tokens that the model reads at a time; 0: unknown.
  [[nodiscard]] uint64_t positions() const {
    if (!has("model.path")) return std::max(number_of("model.max_position_embeddings"), number_of("model.n_positions"));
    const auto spec = models::read_spec(fs::is_directory(a_.model) ? fs::path(a_.model) : a_.from, a_.ignored_keys);
    return spec ? spec->longest() : 0;  // fit() refuses a model that cannot be read
  }

  void put_rest() {
    if (a_.steps > 0 || !has("steps")) text_.put("steps", fmt::to_string(a_.steps > 0 ? a_.steps : 1000));
    if (!has("seed")) text_.put("seed", "1");
    if (!has("optimizer.type")) {
      text_.put("optimizer.type", "AdamW");
      text_.put("optimizer.params.lr", is_trained() ? tuning_rate : first_rate);
      text_.put("optimizer.params.weight_decay", is_trained() ? "0.01" : "0.1");
      if (!has("gradient_clipping")) text_.put("gradient_clipping", "1.0");
    }
    if (!has("checkpoint.every_steps")) text_.put("checkpoint.every_steps", "200");
    const std::string batch = text_.value_of("train_batch_size");
    put_batch();
    if (has("checkpoint.load.path") && !batch.empty() && text_.value_of("train_batch_size") != batch)
      text_.put("checkpoint.load.changed_batch", "true");
    if (!has("zero_optimization.stage")) text_.put("zero_optimization.stage", "3");
    put_sequence();
  }

  /// Returns the value of a key; 0 if it is not a number.
  [[nodiscard]] uint64_t number_of(const std::string& key) const {
    const auto given = given_.find(key);
    const std::string text = given != given_.end() ? given->second : text_.value_of(key);
    std::string_view rest = text;
    return core::take_number<uint64_t>(rest).value_or(0);
  }

  void put_batch() {
    const bool is_said = has("train_batch_size") || has("train_micro_batch_size_per_gpu") || has("elasticity.enabled");
    uint64_t samples = a_.samples > 0 ? a_.samples : is_said ? 0 : usual_samples;
    const bool source_has_data_ranks = has("parallel.data");
    if (has("parallel.ranks") || text_.has_below("parallel") ||
        (source_has_data_ranks && (is_said || a_.samples > 0))) {
      if (a_.samples == 0) return;
      // A run divides the batch among the ranks that the imported source sets
      text_.put("train_batch_size", fmt::to_string(samples));
      text_.drop("train_micro_batch_size_per_gpu");
      text_.drop("gradient_accumulation_steps");
      return;
    }
    // An imported configuration of Accelerate sets the number of processes but no batch size.
    uint32_t ranks = source_has_data_ranks
                         ? static_cast<uint32_t>(std::clamp<uint64_t>(number_of("parallel.data"), 1, ranks_max))
                         : ranks_for(machine_);
    if (source_has_data_ranks) samples = (samples + ranks - 1) / ranks * ranks;
    if (samples == 0) {
      // The imported source sets the batch: keeps it, and chooses the largest possible number of ranks that divides it.
      const uint64_t whole = number_of("train_batch_size");
      const uint64_t each = std::max<uint64_t>(1, number_of("train_micro_batch_size_per_gpu")) *
                            std::max<uint64_t>(1, number_of("gradient_accumulation_steps"));
      while (ranks > 1 && (whole == 0 || whole % (each * ranks) != 0)) --ranks;
      text_.put("parallel.data", fmt::to_string(ranks));
      return;
    }
    while (samples % ranks != 0) --ranks;
    if (!source_has_data_ranks) text_.put("parallel.data", fmt::to_string(ranks));
    text_.put("train_batch_size", fmt::to_string(samples));
    uint64_t rows = std::min(micro_batch, samples / ranks);
    while (samples / ranks % rows != 0) --rows;
    text_.put("train_micro_batch_size_per_gpu", fmt::to_string(rows));
    text_.drop("gradient_accumulation_steps");
    each_ = samples / ranks;
    rows_ = rows;
  }

  /// Reduces the memory that the job needs by one step: halves the micro-batch or, if that is one sample, enables
  /// activation checkpointing. Returns false if neither is possible.
  bool take_less() {
    if (rows_ > 1) {
      rows_ /= 2;
      while (each_ % rows_ != 0) --rows_;
      text_.put("train_micro_batch_size_per_gpu", fmt::to_string(rows_));
      return true;
    }
    if (has("activation_checkpointing.enabled")) return false;
    text_.put("activation_checkpointing.enabled", "true");
    return true;
  }

  [[nodiscard]] core::result<config::job_config> load() const {
    config::load_options options;
    options.also = [](const config::job_config& job, config::so_far) { return job_problems(job, intent::run); };
    auto out = config::load_text(text_.yaml(), fs::absolute(a_.file).string(), folder_, options);
    if (out) return std::move(out->config);
    std::string all = config::render(out.error());
    if (!all.empty()) all.pop_back();
    return fail(error_kind::bad_input, "the file would be refused:\n" + all);
  }

  /// Chooses the memory tiers of the states as `troupe plan --fit` does. If none meets the limits, reduces the memory
  /// that the job needs (take_less) and tries again.
  core::result<void> fit() {
    for (;;) {
      const auto job = load();
      if (!job && take_less()) continue;
      if (!job) return fail(job.error());
      const uint32_t ranks = std::max(1U, job->parallel.ranks());
      const auto limit = static_cast<uint64_t>(memory_share * double(machine_.memory_bytes)) / ranks;
      TROUPE_ASSIGN(auto request,
                    fit_request_of(*job, {.states = job->host_memory_budget / ranks, .total = limit}, spill(), {}));
      const auto ladder = plan::try_tiers(request);
      if (ladder.chosen) return take(ladder.rungs[*ladder.chosen].found, *ladder.chosen == 0, ranks);
      if (take_less()) continue;
      return fail(error_kind::bad_input,
                  fmt::format("no tier fits: wanted a job that needs at most {} for each of {} ranks, got\n{}",
                              core::human_bytes(double(limit)), ranks, plan::as_text(ladder, request)));
    }
  }

  [[nodiscard]] fs::path spill() const {
    return a_.spill.empty() ? fs::path("/var/tmp/troupe") : fs::absolute(a_.spill);
  }

  core::result<void> take(const plan::fitted& found, bool as_it_is, uint32_t ranks) {
    if (!as_it_is) {
      const uint64_t bytes = found.memory.swapped * ranks;
      std::error_code e;
      fs::path there = spill();
      while (there.has_relative_path() && !fs::is_directory(there, e)) there = there.parent_path();
      const auto room = fs::space(there, e);
      if (bytes > 0 && !e && bytes > room.available)
        return fail(error_kind::bad_input, fmt::format("--spill: wanted a folder with {} free, got {} with {}",
                                                       core::human_bytes(double(bytes)), spill().string(),
                                                       core::human_bytes(double(room.available))));
      const auto read = config::read_yaml(plan::as_yaml(found, spill().string()), 0);
      if (read.root != nullptr) text_.put_all(*read.root);
      remarks_.push_back(fmt::format("states do not fit into memory: {} of them go to {}",
                                     core::human_bytes(double(bytes)),
                                     bytes > 0 ? spill().string() : std::string("the host")));
    }
    const auto job = load();
    if (!job) return fail(job.error());
    const auto planned = job::make_blueprint(std::make_shared<const config::job_config>(*job));
    if (!planned) return fail(error_kind::bad_input, "`troupe plan` would refuse the file: " + planned.error().text);
    TROUPE_TRY(check_texts(*planned));
    remarks_.push_back(fmt::format("{} for each of {} rank{}; {} are free",
                                   core::human_bytes(double(found.memory.total())), ranks, ranks == 1 ? "" : "s",
                                   core::human_bytes(double(machine_.memory_bytes))));
    return {};
  }

  /// Checks texts and tokenizer as `troupe train` does; holds out no text if it is too short for that.
  core::result<void> check_texts(const job::blueprint& b) {
    const auto enough = check_data(b, b.config->data.validation_fraction);
    if (enough || !validates_by_itself_) return enough;
    TROUPE_TRY(check_data(b, 0));
    text_.drop("data.validation_fraction");
    remarks_.emplace_back("the text is short: all of it is trained on, and nothing is held out for validation");
    return {};
  }

  const first_job_answers& a_;
  const machine_offer& machine_;
  fs::path folder_;
  job_text text_;
  std::map<std::string, std::string> given_;  ///< keys that the imported configuration sets, with their values
  std::vector<std::string> remarks_;
  uint64_t steps_done_ = 0;  ///< number of steps of the run that the new one continues
  bool vocabulary_is_open_ = false;
  /// True if init has chosen data.validation_fraction, so that it may drop the key for a short text
  bool validates_by_itself_ = false;
  /// Number of samples that one rank computes in a step, and number of samples in its micro-batch; 0: the imported
  /// source sets them.
  uint64_t each_ = 0, rows_ = 0;
};

}  // namespace

machine_offer look_at_machine() {
  const auto facts = read_machine("/");
  machine_offer out;
  out.cores = std::max(1U, core::usable_cores());
  out.processor = facts.processor;
  const auto room = storage::free_memory();
  out.memory_bytes = room ? room->bytes : facts.available_bytes;
  return out;
}

std::vector<std::string> model_sizes() {
  std::vector<std::string> out;
  for (const auto& s : sizes) out.emplace_back(s.name);
  return out;
}

named_data data_of(const first_job_answers& a) {
  if (!a.text.empty()) return {"data.text", a.text};
  if (!a.chat.empty()) return {"data.chat", a.chat};
  if (!a.instruct.empty()) return {"data.instruct", a.instruct};
  return {"data.labelled", a.labelled};
}

void name_data(first_job_answers& a, const std::string& path) {
  switch (form_of_data(path)) {
    case core::sample_form::text:
      a.text = path;
      return;
    case core::sample_form::chat:
      a.chat = path;
      return;
    case core::sample_form::instruct:
      a.instruct = path;
      return;
    case core::sample_form::labelled:
      a.labelled = path;
      return;
  }
}

core::result<void> check_answers(const first_job_answers& a) {
  std::error_code e;
  if (models::is_gguf_file(a.model))
    return core::refused(
        fmt::format("--model: wanted one of {} or a Hugging Face folder, got the GGUF file {}: give it "
                    "as --from, which begins with its model and its weights",
                    fmt::join(model_sizes(), ", "), core::shown(a.model)));
  if (!a.model.empty() && size_of(a.model) == nullptr && !fs::is_directory(a.model, e))
    return fail(error_kind::bad_input, fmt::format("--model: wanted one of {} or a Hugging Face folder, got {}",
                                                   fmt::join(model_sizes(), ", "), core::shown(a.model)));
  std::string_view first;  // option of the data that are named; empty: none yet
  for (const auto& [option, path, what] : data_answers(a)) {
    if (path->empty()) continue;
    if (!first.empty())
      return core::refused(fmt::format("{}: cannot be combined with {}: leave one of them out", option, first));
    if (!fs::exists(*path, e))
      return core::refused(fmt::format("{}: wanted a file or folder of {}, got {}, which does not exist", option, what,
                                       core::shown(*path)));
    first = option;
  }
  TROUPE_TRY(vocabulary_of(a.tokenizer));
  return {};
}

core::result<source_says> look_at_source(const fs::path& from, const std::vector<std::string>& ignored_keys) {
  job_text text;
  std::map<std::string, std::string> given;
  TROUPE_TRY(put_source(text, given, from, fs::current_path(), ignored_keys));
  const auto has = [&](std::string_view key) { return text.has(key) || given.contains(std::string(key)); };
  return source_says{.model = text.has_below("model"),
                     .text = std::ranges::any_of(data_keys, has),
                     .tokenizer = has("data.tokenizer") || has("data.text") || data::has_vocabulary(from),
                     .steps = has("steps"),
                     .samples = has("train_batch_size") || has("train_micro_batch_size_per_gpu")};
}

core::result<first_job> make_first_job(const first_job_answers& a, const machine_offer& machine) {
  TROUPE_TRY(check_answers(a));
  return maker(a, machine).make();
}

}  // namespace troupe::apps
