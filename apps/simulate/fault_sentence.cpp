#include "apps/simulate/fault_sentence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

using std::chrono::nanoseconds;

/// Limits of the numbers in a sentence.
constexpr double slower_max = 1e6, seconds_max = 1e6;

enum class fault_subject : uint8_t { rank, host, link, disk, message, instruction };
enum class fault_effect : uint8_t { dies, freezes, slower, late, lost, full, cut };

std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> out;
  bool begins = true;
  for (const char c : text) {
    if (core::is_ascii_blank(c)) {
      begins = true;
      continue;
    }
    if (begins) out.emplace_back();
    out.back() += c;
    begins = false;
  }
  return out;
}

std::string joined_words(const std::vector<std::string>& words, size_t from, size_t to) {
  std::string out;
  for (size_t i = from; i < to; ++i) out.append(out.empty() ? "" : " ").append(words[i]);
  return out;
}

/// Reads one sentence, word by word: the subject, what happens to it, then moments and places in any order.
class sentence_reader {
 public:
  explicit sentence_reader(std::string_view text) : words_(words_in(text)) {}

  core::result<fault_sentence> read() {
    TROUPE_TRY(read_subject());
    TROUPE_TRY(read_effect());
    while (at_ < words_.size()) TROUPE_TRY(read_addition());
    if (effect_ == fault_effect::freezes && !for_) return wanted("'for' and a time");
    fault_sentence out{joined_words(words_, 0, words_.size()), made(), step_.value_or(0)};
    if (step_) out.fault = out.fault.in_step(*step_);
    if (moment_) out.fault = out.fault.at(*moment_);
    if (!when_.empty()) out.fault = out.fault.when(when_);
    if (on_ && subject_ == fault_subject::instruction) out.fault = out.fault.on(sim::rank{*on_});
    return out;
  }

 private:
  [[nodiscard]] std::string_view word() const {
    return at_ < words_.size() ? std::string_view(words_[at_]) : std::string_view();
  }
  bool take(std::string_view word_wanted) {
    const bool is_it = word() == word_wanted;
    at_ += is_it ? 1 : 0;
    return is_it;
  }

  /// Refuses the sentence at the current word.
  [[nodiscard]] tl::unexpected<core::error> wanted(const std::string& what) const {
    const std::string before = joined_words(words_, 0, std::min(at_, words_.size()));
    return core::refused(fmt::format("--fault '{}': wanted {}{}, got {} (docs/simulation.md lists the sentences)",
                                     core::shown(joined_words(words_, 0, words_.size())), what,
                                     before.empty() ? " first" : " after '" + core::shown(before) + "'",
                                     word().empty() ? "the end" : "'" + core::shown(word(), 40) + "'"));
  }

  core::result<uint32_t> read_number(const char* of) {
    const auto out = core::number_of<uint32_t>(word());
    if (!out) return wanted(fmt::format("the number of a {}", of));
    ++at_;
    return *out;
  }

  core::result<void> read_subject() {
    if (take("rank")) {
      subject_ = fault_subject::rank;
      TROUPE_ASSIGN(number_, read_number("rank"));
      return {};
    }
    if (take("host")) {
      subject_ = fault_subject::host;
      TROUPE_ASSIGN(number_, read_number("host"));
      return {};
    }
    if (take("link")) {
      subject_ = fault_subject::link;
      std::string_view text = word();
      const auto from = core::take_number<uint32_t>(text);
      const bool has_dash = from && text.starts_with('-');
      const auto to = has_dash ? core::number_of<uint32_t>(text.substr(1)) : std::optional<uint32_t>();
      if (!to) return wanted("two hosts such as 0-1");
      ++at_;
      ends_ = {*from, *to};
      return {};
    }
    if (take("instruction")) {
      subject_ = fault_subject::instruction;
      const size_t first = at_;
      while (at_ < words_.size() && words_[at_] != "is") ++at_;
      name_ = joined_words(words_, first, at_);
      if (name_.empty()) return wanted("the name of an instruction");
      return {};
    }
    if (take("a")) {
      subject_ = fault_subject::message;
      return take("message") ? core::result<void>() : wanted("'message'");
    }
    take("the");
    subject_ = fault_subject::disk;
    if (take("disk")) return {};
    return wanted("'rank N', 'host N', 'link A-B', 'the disk', 'a message' or 'instruction NAME'");
  }

  [[nodiscard]] bool is_one_of(std::initializer_list<fault_subject> some) const {
    for (const auto s : some)
      if (subject_ == s) return true;
    return false;
  }
  [[nodiscard]] bool may_stop() const { return is_one_of({fault_subject::rank, fault_subject::host}); }
  [[nodiscard]] bool may_be_late() const {
    return is_one_of({fault_subject::link, fault_subject::message, fault_subject::instruction});
  }

  [[nodiscard]] bool may_last() const { return effect_ == fault_effect::freezes || effect_ == fault_effect::cut; }

  // Returns what may follow the subject.
  [[nodiscard]] std::string effects() const {
    switch (subject_) {
      case fault_subject::rank:
      case fault_subject::host:
        return "'dies', 'freezes for TIME' or 'is F times slower'";
      case fault_subject::link:
        return "'is F times slower', 'is TIME late' or 'is cut'";
      case fault_subject::disk:
        return "'is full', 'is F times slower' or 'freezes for TIME'";
      case fault_subject::message:
        return "'is TIME late'";
      case fault_subject::instruction:
        return "'is F times slower', 'is TIME late' or 'is lost'";
    }
    return {};
  }

  core::result<void> read_effect() {
    const size_t first = at_;
    if (may_stop() && take("dies")) {
      effect_ = fault_effect::dies;
      return {};
    }
    if ((may_stop() || subject_ == fault_subject::disk) && take("freezes")) {
      effect_ = fault_effect::freezes;
      return {};
    }
    if (!take("is")) return wanted(effects());
    if (subject_ == fault_subject::disk && take("full")) {
      effect_ = fault_effect::full;
      return {};
    }
    if (subject_ == fault_subject::link && take("cut")) {
      effect_ = fault_effect::cut;
      return {};
    }
    if (subject_ == fault_subject::instruction && take("lost")) {
      effect_ = fault_effect::lost;
      return {};
    }
    std::string_view text = word();
    const auto number = core::take_number<double>(text);
    if (!number || !std::isfinite(*number)) {
      at_ = first;
      return wanted(effects());
    }
    if (text.empty() && at_ + 1 < words_.size() && words_[at_ + 1] == "times") {
      if (subject_ == fault_subject::message) return wanted("a time");
      if (*number < 1 || *number > slower_max) return wanted(fmt::format("a factor from 1 to {:.0f}", slower_max));
      factor_ = *number;
      at_ += 2;
      effect_ = fault_effect::slower;
      return take("slower") ? core::result<void>() : wanted("'slower'");
    }
    if (!may_be_late()) {
      at_ = first;
      return wanted(effects());
    }
    TROUPE_ASSIGN(late_, read_time());
    effect_ = fault_effect::late;
    return take("late") ? core::result<void>() : wanted("'late'");
  }

  // Reads a time: "5 s" or "5s".
  core::result<nanoseconds> read_time() {
    std::string_view text = word();
    const auto number = core::take_number<double>(text);
    if (!number || !std::isfinite(*number) || *number < 0) return wanted("a time such as '20 ms'");
    const bool is_apart = text.empty();
    if (is_apart) ++at_;
    const std::string_view unit = is_apart ? word() : text;
    constexpr std::pair<std::string_view, double> units[] = {
        {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}};
    for (const auto& [name, seconds] : units) {
      if (unit != name) continue;
      if (*number * seconds > seconds_max) return wanted(fmt::format("a time of at most {:.0f} s", seconds_max));
      ++at_;
      return nanoseconds(std::llround(*number * seconds * 1e9));
    }
    return wanted("one of the units ns, us, ms, s and min");
  }

  core::result<void> read_addition() {
    const bool takes_rank = is_one_of({fault_subject::instruction}) || effect_ == fault_effect::full;
    if (word() == "at" || word() == "in") {
      const bool is_at = word() == "at";
      if (step_ || moment_) return wanted("one moment");
      ++at_;
      if (take("step")) {
        const auto step = core::number_of<uint64_t>(word());
        if (!step || *step == 0) return wanted("the number of a step, from 1");
        ++at_;
        step_ = *step;
        return {};
      }
      if (!is_at) return wanted("'step'");
      TROUPE_ASSIGN(moment_, read_time());
      return {};
    }
    if (may_last() && !for_ && take("for")) {
      TROUPE_ASSIGN(for_, read_time());
      return {};
    }
    if (takes_rank && !on_ && take("on")) {
      if (!take("rank")) return wanted("'rank'");
      TROUPE_ASSIGN(on_, read_number("rank"));
      return {};
    }
    if (subject_ == fault_subject::rank && effect_ != fault_effect::slower && when_.empty() && take("when")) {
      const size_t first = at_;
      while (at_ < words_.size() && words_[at_] != "starts") ++at_;
      when_ = joined_words(words_, first, at_);
      if (when_.empty()) return wanted("the name of an instruction");
      return take("starts") ? core::result<void>() : wanted("'starts'");
    }
    std::string what = "a moment such as 'at step N'";
    if (may_last() && !for_) what += " or 'for TIME'";
    if (takes_rank && !on_) what += " or 'on rank N'";
    return wanted(what + " or the end");
  }

  [[nodiscard]] sim::fault made() const {
    const sim::rank rank{number_};
    const sim::host host{number_};
    const bool of_host = subject_ == fault_subject::host;
    switch (effect_) {
      case fault_effect::dies:
        return of_host ? sim::kill(host) : sim::kill(rank);
      case fault_effect::freezes:
        if (subject_ == fault_subject::disk) return sim::freeze_disk(*for_);
        return of_host ? sim::freeze(host, *for_) : sim::freeze(rank, *for_);
      case fault_effect::slower:
        if (subject_ == fault_subject::link) return sim::slow(ends_, factor_);
        if (subject_ == fault_subject::disk) return sim::slow_disk(factor_);
        if (subject_ == fault_subject::instruction) return sim::slow(name_, factor_);
        return of_host ? sim::slow(host, factor_) : sim::slow(rank, factor_);
      case fault_effect::late:
        if (subject_ == fault_subject::link) return sim::late(ends_, late_);
        return subject_ == fault_subject::message ? sim::late_message(late_) : sim::late(name_, late_);
      case fault_effect::lost:
        return sim::lose(name_);
      case fault_effect::cut:
        return for_ ? sim::cut(ends_, *for_) : sim::cut(ends_);
      case fault_effect::full:
        break;
    }
    return sim::full_disk(sim::rank{on_.value_or(0)});
  }

  std::vector<std::string> words_;
  size_t at_ = 0;
  fault_subject subject_ = fault_subject::rank;
  fault_effect effect_ = fault_effect::dies;
  uint32_t number_ = 0;
  sim::link ends_;
  std::string name_, when_;
  double factor_ = 1;
  nanoseconds late_{0};
  std::optional<nanoseconds> for_, moment_;
  std::optional<uint64_t> step_;
  std::optional<uint32_t> on_;
};

}  // namespace

core::result<fault_sentence> read_fault(std::string_view sentence) { return sentence_reader(sentence).read(); }

}  // namespace troupe::apps
