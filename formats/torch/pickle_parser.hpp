// The stack machine of read_pickle(): executes each opcode on the stack, the marks and the memo.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "formats/torch/pickle_opcodes.hpp"
#include "formats/torch/pickle_reader.hpp"
#include "formats/torch/zip_layout.hpp"

namespace troupe::formats {

class pickle_parser {
 public:
  explicit pickle_parser(std::span<const std::byte> bytes) : limit_(bytes.size()) { tree_.pickle_ = bytes; }
  pickle_parser(const core::source_file& file, uint64_t begin, uint64_t bytes)
      : file_(&file), begin_(begin), limit_(bytes) {}

  core::result<pickle_tree> run() {
    if (limit_ > max_pickle_bytes)
      return core::fail(core::error_kind::limit,
                        fmt::format("a pickle has at most {} bytes here, got {}", max_pickle_bytes, limit_));
    while (!done_ && why_.empty()) {
      opcode_at_ = at_;
      step(static_cast<pickle::op>(take(1)));
    }
    if (lost_) return core::fail(std::move(*lost_));
    if (why_.empty()) check_shape();
    if (!why_.empty())
      return core::fail(core::error_kind::bad_input,
                        fmt::format("the pickle is refused at byte {}: {}", opcode_at_, why_));
    tree_.bytes_read_ = at_;
    if (file_ != nullptr) {
      tree_.own_pickle_.resize(at_);
      tree_.own_pickle_.shrink_to_fit();
      tree_.pickle_ = tree_.own_pickle_;
    }
    return std::move(tree_);
  }

 private:
  using op = pickle::op;
  using node = pickle_tree::node;
  static constexpr uint32_t nothing = pickle_tree::nothing;
  /// Number of bytes of a file that are read first; each further read doubles the total.
  static constexpr uint64_t first_read_bytes = uint64_t{1} << 16;

  void refuse(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }

  // ---- functions that read bytes; after a refusal they return zeros, and run() stops

  /// True if `n` more bytes exist; reads them from the file if necessary.
  bool have(uint64_t n) {
    if (n > limit_ - at_) return false;
    return n <= tree_.pickle_.size() - at_ || fetch(at_ + n);
  }
  bool fetch(uint64_t end) {
    auto& own = tree_.own_pickle_;
    const size_t known = own.size();
    own.resize(std::min(limit_, std::max({end, uint64_t{2 * known}, first_read_bytes})));
    tree_.pickle_ = own;
    const auto ok = file_->read(begin_ + known, std::span(own).subspan(known));
    if (ok) return true;
    lost_ = ok.error();
    refuse(lost_->text);
    return false;
  }

  uint64_t take(size_t n) {
    if (!have(n)) {
      refuse("it ends in the middle");
      return 0;
    }
    at_ += n;
    return zip::number(tree_.pickle_, at_ - n, n);
  }

  void push_text(pickle_kind kind, uint64_t bytes) {
    if (!have(bytes)) return refuse(fmt::format("{} bytes are announced, {} are left", bytes, limit_ - at_));
    push({kind, false, static_cast<uint32_t>(at_), static_cast<uint32_t>(bytes), nothing, nothing});
    at_ += bytes;
  }

  void push_line() {
    uint64_t bytes = 0;
    for (;; ++bytes) {
      if (!have(bytes + 1)) return refuse("a name has no end");
      if (tree_.pickle_[at_ + bytes] == std::byte{'\n'}) break;
    }
    push_text(pickle_kind::text, bytes);
    ++at_;
  }

  void push_whole_number(uint64_t bytes) {
    if (bytes > 8) return push_text(pickle_kind::big_integer, bytes);
    const uint64_t raw = take(bytes);
    const auto unused = static_cast<int>(64 - 8 * bytes);
    push_integer(bytes == 0 ? 0 : static_cast<int64_t>(raw << unused) >> unused);
  }

  // ---- functions that push values onto the stack and pop values

  void push(const node& n) {
    if (!why_.empty()) return;
    stack_.push_back(static_cast<pickle_ref>(tree_.nodes_.size()));
    tree_.nodes_.push_back(n);
  }
  void push_integer(int64_t value) { push_bits(pickle_kind::integer, static_cast<uint64_t>(value)); }
  void push_bits(pickle_kind kind, uint64_t bits) {
    push({kind, false, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), nothing, nothing});
  }
  void push_boolean(bool value) { push({pickle_kind::boolean, false, value ? 1U : 0U, 0, nothing, nothing}); }
  void push_items(pickle_kind kind, std::span<const pickle_ref> items) {
    uint32_t list = nothing;
    if (!items.empty()) {
      list = static_cast<uint32_t>(tree_.lists_.size());
      tree_.lists_.emplace_back(items.begin(), items.end());
    }
    push({kind, false, 0, 0, nothing, list});
  }

  /// Returns the top `n` values, which must be above the last mark; the caller removes them with drop(n).
  std::span<const pickle_ref> top(size_t n) {
    if (stack_.size() - floor() < n) {
      refuse(fmt::format("{} values are wanted on the stack, {} are there", n, stack_.size() - floor()));
      return {};
    }
    return std::span(stack_).last(n);
  }
  [[nodiscard]] size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void drop(size_t n) { stack_.resize(stack_.size() - n); }

  pickle_ref pop() {
    const auto one = top(1);
    if (one.empty()) return nothing;
    const pickle_ref v = one.front();
    drop(1);
    return v;
  }

  /// Pops the topmost mark and all values above it, and returns these values.
  std::vector<pickle_ref> pop_mark() {
    if (marks_.empty()) {
      refuse("a mark is wanted on the stack");
      return {};
    }
    std::vector<pickle_ref> out(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }

  void replace(size_t n, pickle_kind kind) {
    const std::vector<pickle_ref> items(top(n).begin(), top(n).end());
    if (!why_.empty()) return;
    drop(n);
    push_items(kind, items);
  }

  /// Appends `items` to the container on top of the stack: list APPEND(S), dict SETITEM(S), set ADDITEMS, or an
  /// object's items.
  void put_into(pickle_kind kind, std::span<const pickle_ref> items) {
    const auto below = top(1);
    if (below.empty()) return;
    node& n = tree_.nodes_[below.front()];
    if (n.kind != kind && n.kind != pickle_kind::object) return refuse("items are put into a value that holds none");
    if (kind == pickle_kind::dict && items.size() % 2 != 0) return refuse("a key has no value");
    if (items.empty()) return;
    if (n.list == nothing) {
      n.list = static_cast<uint32_t>(tree_.lists_.size());
      tree_.lists_.emplace_back();
    }
    auto& list = tree_.lists_[n.list];
    list.insert(list.end(), items.begin(), items.end());
  }
  void put_top(size_t n, pickle_kind kind) {
    const std::vector<pickle_ref> items(top(n).begin(), top(n).end());
    if (!why_.empty()) return;
    drop(n);
    put_into(kind, items);
  }

  void memoize(uint64_t place) {
    const auto one = top(1);
    if (one.empty()) return;
    // A pickler numbers the places of the memo upwards from 0, and each store in the memo takes at least one byte of
    // the pickle.
    if (place >= limit_) return refuse(fmt::format("memo place {} is beyond the pickle's size", place));
    if (place >= memo_.size()) memo_.resize(place + 1, nothing);
    memo_[place] = one.front();
    memo_count_ = std::max<uint64_t>(memo_count_, place + 1);
  }
  void recall(uint64_t place) {
    if (place >= memo_.size() || memo_[place] == nothing)
      return refuse(fmt::format("memo place {} holds nothing", place));
    stack_.push_back(memo_[place]);
  }

  // ---- functions that record calls and imports as values; nothing is executed

  void push_global(pickle_ref module, pickle_ref name) {
    if (!why_.empty()) return;
    if (tree_.kind(module) != pickle_kind::text || tree_.kind(name) != pickle_kind::text)
      return refuse("a name to import is not text");
    const pickle_ref items[] = {module, name};
    push_items(pickle_kind::global, items);
  }

  /// True if calls may copy `more` elements or bytes in addition to those copied so far. A pickler writes arguments
  /// anew for each call, so the copies of an honest pickle never exceed its size; a pickle that recalls one list or
  /// text from the memo for many calls does.
  bool charge(size_t more, const char* otherwise) {
    copied_ += more;
    if (copied_ <= limit_) return true;
    refuse(otherwise);
    return false;
  }

  void call(pickle_ref target, pickle_ref args) {
    if (!why_.empty()) return;
    if (tree_.kind(target) != pickle_kind::global) return refuse("a call of something that is not a name");
    if (tree_.kind(args) != pickle_kind::tuple) return refuse("a call with arguments that are not a tuple");
    const auto given = tree_.items(args);
    // These calls make plain values: OrderedDict, set, frozenset, bytes.
    if (given.empty() && tree_.is_global(target, "collections", "OrderedDict"))
      return push_items(pickle_kind::dict, {});
    const bool set = tree_.is_global(target, "builtins", "set") || tree_.is_global(target, "builtins", "frozenset");
    if (set && given.size() <= 1 && (given.empty() || tree_.kind(given[0]) == pickle_kind::list)) {
      if (given.empty()) return push_items(pickle_kind::set, {});
      const auto inside = tree_.items(given[0]);
      if (!charge(inside.size(), "its sets together hold more values than the pickle has bytes")) return;
      return push_items(pickle_kind::set, std::vector<pickle_ref>(inside.begin(), inside.end()));
    }
    if (tree_.is_global(target, "_codecs", "encode") && spells_bytes(given)) return;
    push({pickle_kind::object, false, target, args, nothing, nothing});
  }

  /// Pushes the result of _codecs.encode(text, 'latin1'), by which protocol 2 writes bytes. Returns false, and pushes
  /// nothing, for other arguments.
  bool spells_bytes(std::span<const pickle_ref> given) {
    if (given.size() != 2 || tree_.kind(given[0]) != pickle_kind::text || tree_.kind(given[1]) != pickle_kind::text)
      return false;
    const std::string_view text = tree_.text(given[0]), codec = tree_.text(given[1]);
    if (codec != "latin1" && codec != "latin-1") return false;
    if (!charge(text.size(), "its byte strings together are longer than the pickle")) return true;
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c < 0x80) {
        bytes += text[i];
      } else if ((c == 0xC2 || c == 0xC3) && i + 1 < text.size()) {
        bytes += static_cast<char>((c & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F));
      } else {
        return false;
      }
    }
    push({pickle_kind::bytes, true, static_cast<uint32_t>(tree_.own_text_.size()), static_cast<uint32_t>(bytes.size()),
          nothing, nothing});
    tree_.own_text_ += bytes;
    return true;
  }

  void build() {
    const pickle_ref state = pop();
    const auto below = top(1);
    if (below.empty()) return;
    node& n = tree_.nodes_[below.front()];
    if (n.kind != pickle_kind::object && n.kind != pickle_kind::dict)
      return refuse("attributes are given to a value that has none");
    if (n.state != nothing) return refuse("one value is given attributes twice");
    n.state = state;
  }

  // ---- functions that execute opcodes

  struct opcodes;
  void step(op code);

  void refuse_opcode() {
    const auto code = std::to_integer<int>(tree_.pickle_[opcode_at_]);
    refuse(fmt::format("its opcode 0x{:02x} is not supported", code));
  }
  void stop() {
    if (stack_.size() != 1 || !marks_.empty()) return refuse("its end must leave one value on the stack and no mark");
    tree_.root_ = stack_.front();
    done_ = true;
  }
  void pop_global() {
    const pickle_ref name = pop(), module = pop();
    push_global(module, name);
  }
  void pop_call() {
    const pickle_ref args = pop(), target = pop();
    call(target, args);
  }
  /// Records a call whose arguments are the tuple (args, kwargs) of positional and keyword arguments.
  void pop_call_with_keywords() {
    const auto three = top(3);
    if (three.empty()) return;
    if (tree_.kind(three[1]) != pickle_kind::tuple || tree_.kind(three[2]) != pickle_kind::dict)
      return refuse("a call with arguments that are not a tuple and a dict");
    replace(2, pickle_kind::tuple);
    pop_call();
  }

  // ---- functions that check the whole pickle

  /// Refuses values that contain themselves or are nested too deeply. Computes the depth of every value that the root
  /// reaches, without recursion; depth 0 means not visited, `open` means on the current path.
  void check_shape() {
    constexpr uint16_t open = std::numeric_limits<uint16_t>::max();
    std::vector<uint16_t> depth(tree_.nodes_.size(), 0);
    struct visit {
      pickle_ref value;
      uint32_t next;  ///< index of the next child of `value` to visit
    };
    std::vector<visit> path{{tree_.root_, 0}};
    depth[tree_.root_] = open;
    while (!path.empty()) {
      auto& here = path.back();
      const pickle_ref child = child_of(here.value, here.next++);
      if (child == nothing) {
        uint16_t deepest = 0;
        for (uint32_t i = 0; child_of(here.value, i) != nothing; ++i)
          deepest = std::max(deepest, depth[child_of(here.value, i)]);
        depth[here.value] = static_cast<uint16_t>(deepest + 1);
        if (deepest >= max_pickle_depth)
          return refuse(fmt::format("its values are nested deeper than {}", max_pickle_depth));
        path.pop_back();
      } else if (depth[child] == open) {
        return refuse("a value contains itself");
      } else if (depth[child] == 0) {
        depth[child] = open;
        if (path.size() > max_pickle_depth)
          return refuse(fmt::format("its values are nested deeper than {}", max_pickle_depth));
        path.push_back({child, 0});
      }
    }
  }

  /// Returns child number `i` of `v`, in the order state, target, args, items; `nothing` after the last child.
  [[nodiscard]] pickle_ref child_of(pickle_ref v, uint32_t i) const {
    const node& n = tree_.nodes_[v];
    if (n.state != nothing && i-- == 0) return n.state;
    if (n.kind == pickle_kind::object) {
      if (i < 2) return i == 0 ? n.a : n.b;
      i -= 2;
    }
    return n.list != nothing && i < tree_.lists_[n.list].size() ? tree_.lists_[n.list][i] : nothing;
  }

  pickle_tree tree_;
  const core::source_file* file_ = nullptr;
  uint64_t begin_ = 0;               ///< offset of the pickle's first byte in the file
  uint64_t limit_;                   ///< largest possible size of the pickle, in bytes
  std::optional<core::error> lost_;  ///< error that occurred while the file was read
  std::vector<pickle_ref> stack_;
  std::vector<size_t> marks_;  ///< for each mark on the stack: number of values below the mark
  std::vector<pickle_ref> memo_;
  uint64_t memo_count_ = 0;
  uint64_t copied_ = 0;  ///< elements and bytes that calls have copied so far
  size_t at_ = 0, opcode_at_ = 0;
  bool done_ = false;
  std::string why_;
};

}  // namespace troupe::formats
