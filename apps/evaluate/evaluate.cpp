#include "apps/evaluate/evaluate.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/base/stop_request.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/checkpoint/gguf_keys.hpp"
#include "apps/checkpoint/source_tokenizer.hpp"
#include "apps/evaluate/choice_file.hpp"
#include "apps/evaluate/choice_scores.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"
#include "data/token_stream.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "families/all_families.hpp"
#include "models/compress/unit_walk.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Number of tokens that pass the model together, whose hidden states are in files meanwhile.
constexpr uint64_t tokens_together = uint64_t{1} << 18;
/// Size in bytes from which on malloc maps a block separately, so that the weights of a unit return to the system.
constexpr int separate_bytes = 1 << 18;

/// Owns an empty folder for hidden states in the system's temporary folder.
class hidden_folder {
 public:
  static core::result<std::unique_ptr<hidden_folder>> make() {
    std::error_code e;
    const fs::path above = fs::temp_directory_path(e);
    if (e) return fail(error_kind::io, fmt::format("no temporary folder: {}", e.message()));
    std::string name = (above / "troupe-evaluate-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      return fail(error_kind::io, fmt::format("cannot make a folder in '{}': {}", core::shown(above.string()),
                                              core::system_message(errno)));
    return std::unique_ptr<hidden_folder>(new hidden_folder(std::move(name)));
  }
  hidden_folder(const hidden_folder&) = delete;
  hidden_folder& operator=(const hidden_folder&) = delete;
  ~hidden_folder() {
    std::error_code e;
    fs::remove_all(path_, e);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  explicit hidden_folder(fs::path path) : path_(std::move(path)) {}

  fs::path path_;
};

/// A choice of a question as tokens: the context's, then the continuation's.
struct encoded_choice {
  size_t question = 0, choice = 0;
  std::vector<int64_t> tokens;
  uint64_t counted = 0;  ///< number of tokens of the continuation, at the end of `tokens`
};

struct text_result {
  uint64_t tokens = 0, columns = 0;  ///< tokens that were predicted; largest number of tokens before one of them
  double loss = 0;                   ///< mean, in nats
};
struct choice_result {
  choice_counts counts;
  uint64_t cut = 0;  ///< choices whose context was cut at its beginning
};

class evaluation {
 public:
  evaluation(const evaluate_arguments& a, const described_checkpoint& from, models::model_spec spec,
             std::shared_ptr<data::tokenizer> tokenizer)
      : a_(a), from_(from), spec_(std::move(spec)), tokenizer_(std::move(tokenizer)) {
    const auto job = own_configuration(from.source);
    is_masked_ = job && job->data.document_mask;
  }

  /// Returns the mean loss over the text. Refused: a text that is missing or has no second token, tokens that the model
  /// does not have, a window that is longer than the model reads.
  core::result<text_result> over_text() const {
    const uint64_t longest = spec_.longest();
    if (a_.sequence > longest)
      return core::refused(fmt::format("--sequence: the model reads 1 to {} tokens, got {}", longest, a_.sequence));
    data::source_options options;
    options.path = a_.text;
    options.vocab_size = spec_.vocabulary;
    if (!a_.tokenizer.empty() || tokenizer_->description().kind != bytes_name) options.tokens_of = tokenizer_;
    options.keep_documents = is_masked_;
    auto stream = data::open_tokens(options);
    if (!stream) return fail(stream.error().in("--text"));
    const data::token_stream& s = **stream;
    if (s.size() < 2)
      return core::refused(
          fmt::format("--text: wanted at least 2 tokens, '{}' has {}", core::shown(a_.text), s.size()));
    const uint64_t wanted = a_.sequence > 0 ? a_.sequence : std::min(longest, default_window);
    text_result out{.tokens = s.size() - 1, .columns = std::min(wanted, s.size() - 1)};
    const uint64_t whole = out.tokens / out.columns, rest = out.tokens % out.columns;
    const uint64_t together = std::max<uint64_t>(1, tokens_together / out.columns);
    for (uint64_t first = 0; first < whole; first += together)
      TROUPE_TRY(add_windows(s, first * out.columns, std::min(together, whole - first), out.columns, out.loss));
    // The last window has a length of its own, so that no token is computed that the text does not have.
    if (rest > 0) TROUPE_TRY(add_windows(s, whole * out.columns, 1, rest, out.loss));
    out.loss /= static_cast<double>(out.tokens);
    return out;
  }

  /// Returns how many questions are answered right. Refused: what read_questions() refuses, and choices that are longer
  /// than the model reads.
  core::result<choice_result> over_choices() const {
    auto read = read_questions(a_.choices);
    if (!read) return fail(read.error().in("--choices"));
    choice_result out;
    std::vector<std::vector<double>> scores;
    // Choices of one length pass the model together, so that no row is padded.
    std::map<size_t, std::vector<encoded_choice>> by_length;
    for (size_t q = 0; q < read->size(); ++q) {
      scores.emplace_back((*read)[q].choices.size());
      for (size_t c = 0; c < scores[q].size(); ++c) {
        auto encoded = tokens_of((*read)[q], c, out.cut);
        if (!encoded)
          return fail(encoded.error().in(fmt::format("--choices: '{}' line {}: choice {}", core::shown(a_.choices),
                                                     (*read)[q].line, c)));
        encoded->question = q;
        encoded->choice = c;
        by_length[encoded->tokens.size()].push_back(std::move(*encoded));
      }
    }
    for (const auto& [length, all] : by_length) {
      const uint64_t together = std::max<uint64_t>(1, tokens_together / length);
      for (size_t first = 0; first < all.size(); first += together)
        TROUPE_TRY(score(std::span(all).subspan(first, std::min<size_t>(together, all.size() - first)), scores));
    }
    out.counts = count_right(*read, scores);
    return out;
  }

 private:
  static bool go_on() { return !stop_request::made(); }

  core::result<std::vector<float>> log_probabilities(const models::token_windows& w) const {
    TROUPE_ASSIGN(const auto folder, hidden_folder::make());
    TROUPE_ASSIGN(const auto walk, models::unit_walk::open(spec_, from_.source, w, folder->path(), go_on));
    auto out = walk->log_probabilities();
    if (!out && out.error().kind == error_kind::stopped) return fail(error_kind::stopped, "the evaluation was stopped");
    return out;
  }

  /// Adds to `sum` the losses of `count` windows of the stream, which follow one another from token `begin` on.
  core::result<void> add_windows(const data::token_stream& s, uint64_t begin, uint64_t count, uint64_t columns,
                                 double& sum) const {
    models::token_windows w{.tokens = std::vector<int64_t>(count * (columns + 1)),
                            .columns = columns,
                            .document_starts = std::vector<uint32_t>(is_masked_ ? count * columns : 0)};
    for (uint64_t i = 0; i < count; ++i) {
      const auto row = std::span(w.tokens).subspan(i * (columns + 1), columns + 1);
      TROUPE_TRY(s.copy(begin + i * columns, row));
      if (is_masked_)
        s.document_starts(begin + i * columns, row.first(columns),
                          std::span(w.document_starts).subspan(i * columns, columns));
    }
    TROUPE_ASSIGN(const auto each, log_probabilities(w));
    for (const float x : each) sum -= static_cast<double>(x);
    return {};
  }

  /// Encodes a choice behind its context; counts a context that had to be cut.
  core::result<encoded_choice> tokens_of(const choice_question& question, size_t choice, uint64_t& cut) const {
    const choice_text text = text_of(question, choice);
    std::vector<uint32_t> context, whole;
    TROUPE_TRY(tokenizer_->encode(text.context, context));
    TROUPE_TRY(tokenizer_->encode(text.context + text.continuation, whole));
    if (context.empty() || whole.size() <= context.size())
      return core::refused("wanted tokens of its own behind the context's, got none");
    if (const auto beyond = std::ranges::find_if(whole, [&](uint32_t t) { return t >= spec_.vocabulary; });
        beyond != whole.end())
      return core::refused(
          fmt::format("wanted tokens below the model's vocabulary of {}, got {}", spec_.vocabulary, *beyond));
    encoded_choice out;
    out.counted = whole.size() - context.size();
    const uint64_t most = uint64_t{spec_.longest()} + 1;
    if (out.counted >= most)
      return core::refused(fmt::format("wanted at most {} tokens, which the model reads, got {}", most - 1,
                                       out.counted));
    if (whole.size() > most) ++cut;
    const uint64_t kept = std::min<uint64_t>(most, whole.size());
    out.tokens.assign(whole.end() - static_cast<std::ptrdiff_t>(kept), whole.end());
    return out;
  }

  /// Sets the scores of choices that have equally many tokens.
  core::result<void> score(std::span<const encoded_choice> all, std::vector<std::vector<double>>& scores) const {
    models::token_windows w;
    w.columns = all.front().tokens.size() - 1;
    for (const auto& one : all) w.tokens.insert(w.tokens.end(), one.tokens.begin(), one.tokens.end());
    TROUPE_ASSIGN(const auto each, log_probabilities(w));
    for (size_t i = 0; i < all.size(); ++i) {
      const auto of_row = std::span(each).subspan(i * w.columns, w.columns).last(all[i].counted);
      double sum = 0;
      for (const float x : of_row) sum += static_cast<double>(x);
      scores[all[i].question][all[i].choice] = sum;
    }
    return {};
  }

  const evaluate_arguments& a_;
  const described_checkpoint& from_;
  models::model_spec spec_;
  std::shared_ptr<data::tokenizer> tokenizer_;
  bool is_masked_ = false;  ///< true: the run of the checkpoint set data.document_mask, so a text has documents
};

void tell(const text_result& r, const std::string& text) {
  std::printf("%s\n", fmt::format("{}: loss {:.4f} nats/token, perplexity {:.4f}, {} tokens in windows of {}",
                                  core::shown(text), r.loss, std::exp(r.loss), r.tokens, r.columns)
                          .c_str());
}

void tell(const choice_result& r, const std::string& file) {
  const auto share = [&](double x) {
    return fmt::format("{:.4f} (standard error {:.4f})", x, standard_error(x, r.counts.questions));
  };
  std::printf("%s\n", fmt::format("{}: {} questions, accuracy {}, by bytes {}{}", core::shown(file),
                                  r.counts.questions, share(r.counts.accuracy()), share(r.counts.accuracy_by_bytes()),
                                  r.cut == 0 ? "" : fmt::format(", {} contexts cut at their beginning", r.cut))
                          .c_str());
}

nlohmann::ordered_json as_json(const text_result& r) {
  return {{"loss", r.loss}, {"perplexity", std::exp(r.loss)}, {"tokens", r.tokens}, {"sequence", r.columns}};
}

nlohmann::ordered_json as_json(const choice_result& r) {
  const auto& c = r.counts;
  return {{"questions", c.questions},
          {"accuracy", c.accuracy()},
          {"accuracy_standard_error", standard_error(c.accuracy(), c.questions)},
          {"accuracy_by_bytes", c.accuracy_by_bytes()},
          {"accuracy_by_bytes_standard_error", standard_error(c.accuracy_by_bytes(), c.questions)},
          {"contexts_cut", r.cut}};
}

core::result<void> evaluate_model(const evaluate_arguments& a) {
  TROUPE_ASSIGN(const auto from, open_to_export(a.source, a.model_config));
  if (const auto* family = families::find(from.model.model_type); family != nullptr && family->is_encoder)
    return core::refused(fmt::format("SOURCE: wanted a model that finds the next token, got a {} model, which is not "
                                     "evaluated yet",
                                     family->model_type));
  auto spec = computed_model(from);
  if (!spec) return fail(spec.error());
  TROUPE_ASSIGN(auto tokenizer, tokenizer_of(a.tokenizer, from, spec->vocabulary));
  TROUPE_TRY(data::check_vocabulary(tokenizer->description(), spec->vocabulary));
  ::mallopt(M_MMAP_THRESHOLD, separate_bytes);
  const evaluation with(a, from, std::move(*spec), std::move(tokenizer));
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  const bool as_text = a.form == output_form::text;
  if (!a.text.empty()) {
    TROUPE_ASSIGN(const auto r, with.over_text());
    if (!std::isfinite(r.loss))
      return fail(error_kind::numeric, fmt::format("the loss over '{}' is not finite", core::shown(a.text)));
    if (as_text) tell(r, a.text);
    out["text"] = as_json(r);
  }
  if (!a.choices.empty()) {
    TROUPE_ASSIGN(const auto r, with.over_choices());
    if (as_text) tell(r, a.choices);
    out["choices"] = as_json(r);
  }
  if (!as_text) std::printf("%s\n", out.dump().c_str());
  return {};
}

}  // namespace

int run_evaluation(const evaluate_command& command) {
  const stop_request stop;
  if (const auto ok = command.check(); !ok) return ended(ok);
  const auto done = evaluate_model(command.arguments());
  return done ? 0 : ended_with(with_way_around(done.error(), command.arguments().source));
}

}  // namespace troupe::apps
