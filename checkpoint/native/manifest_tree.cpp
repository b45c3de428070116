#include "checkpoint/native/manifest_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/native/manifest_text.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::checkpoint {
namespace {

using nlohmann::json;

/// Reader of JSON events that limits nesting, number of values and number of keys, and refuses repeated keys.
class guard : public nlohmann::json_sax<json> {
 public:
  explicit guard(size_t max_depth) : max_depth_(max_depth) {}
  std::string problem;

  bool start_object(size_t) override {
    open_.emplace_back();
    return value() && deep();
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool start_array(size_t) override {
    open_.emplace_back();
    return value() && deep();
  }
  bool end_array() override { return end_object(); }
  bool key(std::string& name) override {
    auto& keys = open_.back();
    if (std::find(keys.begin(), keys.end(), name) != keys.end())
      return wrong(fmt::format("the key '{}' appears twice", formats::shown(name)));
    if (keys.size() == max_manifest_keys) return wrong(fmt::format("an object has more than {} keys", keys.size()));
    keys.push_back(std::move(name));
    return true;
  }
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(int64_t) override { return value(); }
  bool number_unsigned(uint64_t) override { return value(); }
  bool number_float(double, const std::string&) override { return value(); }
  bool string(std::string&) override { return value(); }
  bool binary(json::binary_t&) override { return value(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return wrong(fmt::format("its JSON is broken at byte {}", position));
  }

 private:
  bool wrong(std::string text) {
    problem = std::move(text);
    return false;
  }
  bool value() { return ++values_ <= max_manifest_values || wrong("it holds too many values"); }
  bool deep() { return open_.size() <= max_depth_ || wrong(fmt::format("it nests deeper than {}", max_depth_)); }

  size_t max_depth_;
  size_t values_ = 0;
  std::vector<std::vector<std::string>> open_;
};

/// Reader of JSON events that limits only nesting and number of values, for JSON with arbitrary keys and values.
class depth_guard : public guard {
 public:
  using guard::guard;
  bool key(std::string&) override { return true; }
};

/// Reads values from the JSON tree; `problem` describes the first value that is missing or has another type.
class taker {
 public:
  bool cuts = true;  ///< true: the manifest's version stores how tensors are cut
  std::string problem{};

  /// Returns the member of an object; null, with the problem recorded, if it is missing.
  const json* member(const json& object, const char* key, const char* where) {
    if (!object.is_object()) return miss(where, "an object");
    const auto at = object.find(key);
    if (at == object.end()) return miss(where, fmt::format("the key '{}'", key));
    return &*at;
  }
  template <class T>
  bool number(const json* v, T& out, const char* where) {
    if (v == nullptr) return false;
    if constexpr (std::is_floating_point_v<T>) {
      if (!v->is_number()) return miss(where, "a number") != nullptr;
      out = v->get<T>();
    } else {
      // the JSON reader stores whole numbers that are not negative as unsigned
      const bool fits = v->is_number_unsigned()  ? std::in_range<T>(v->get<uint64_t>())
                        : v->is_number_integer() ? std::in_range<T>(v->get<int64_t>())
                                                 : false;
      if (!fits) return miss(where, "a whole number in range") != nullptr;
      out = v->get<T>();
    }
    return true;
  }
  /// Reads a number, or nothing where the value is `null`.
  bool number_or_null(const json* v, std::optional<uint64_t>& out, const char* where) {
    out.reset();
    if (v != nullptr && v->is_null()) return true;
    return number(v, out.emplace(), where);
  }
  bool text(const json* v, std::string& out, const char* where) {
    if (v == nullptr) return false;
    if (!v->is_string()) return miss(where, "text") != nullptr;
    out = v->get_ref<const std::string&>();
    return true;
  }
  bool digest(const json* v, storage::digest128& out, const char* where) {
    std::string hex;
    if (!text(v, hex, where)) return false;
    const auto d = storage::digest_from_hex(hex);
    if (!d) return miss(where, "32 hexadecimal digits") != nullptr;
    out = *d;
    return true;
  }
  /// True for a list of exactly `size` values, or of any length if `size` is 0.
  bool list(const json* v, size_t size, const char* where) {
    if (v == nullptr) return false;
    if (v->is_array() && (size == 0 || v->size() == size)) return true;
    return miss(where, size == 0 ? std::string("a list") : fmt::format("a list of {} values", size)) != nullptr;
  }

  bool run(const json& v, run_state& out) {
    const char* at = "its run state";
    const auto get = [&](const char* key) { return member(v, key, at); };
    if (!number(get("step"), out.step, at) || !number(get("applied_updates"), out.applied_updates, at) ||
        !number(get("data_position"), out.data_position, at) || !number_or_null(get("seed"), out.seed, at) ||
        !text(get("config"), out.config, at) || !text(get("model"), out.model, at) ||
        !text(get("client_state"), out.client_state, at))
      return false;
    // Older manifests lack the following members.
    if (const auto samples = v.find("samples_per_step"); samples != v.end() && !samples->is_null())
      if (!number(&*samples, out.samples_per_step.emplace(), at)) return false;
    if (const auto position = v.find("schedule_position"); position != v.end() && !position->is_null())
      if (!number(&*position, out.schedule_position.emplace(), at)) return false;
    if (const auto order = v.find("parameter_order"); order != v.end()) {
      if (!list(&*order, 0, "the parameters' order")) return false;
      out.parameter_order.reserve(order->size());
      for (const auto& name : *order)
        if (!text(&name, out.parameter_order.emplace_back(), "a name in the parameters' order")) return false;
    }
    if (const auto masks = v.find("masks"); masks != v.end()) {
      if (!list(&*masks, 0, "its masks")) return false;
      for (const auto& x : *masks)
        if (!mask(x, out.masks.emplace_back())) return false;
    }
    if (const auto teacher = v.find("teacher"); teacher != v.end() && !teacher->is_null()) {
      const char* of = "its teacher";
      auto& t = out.teacher.emplace();
      if (!text(member(*teacher, "folder", of), t.folder, of) || !digest(member(*teacher, "digest", of), t.digest, of))
        return false;
    }
    if (const auto ranges = v.find("input_ranges"); ranges != v.end()) {
      if (!list(&*ranges, 0, "the ranges of inputs")) return false;
      for (const auto& x : *ranges) {
        formats::input_range& r = out.input_ranges.emplace_back();
        constexpr const char* one = "a range of an input";
        if (!list(&x, 3, one) || !text(&x[0], r.layer, one) || !number(&x[1], r.least, one) ||
            !number(&x[2], r.largest, one))
          return false;
      }
    }
    if (const auto data = v.find("data"); data != v.end() && !data->is_null())
      if (!data_of(*data, out.data.emplace())) return false;
    if (const auto decisions = v.find("left_out"); decisions != v.end()) {
      if (!list(&*decisions, 0, "what it left out")) return false;
      for (const auto& x : *decisions)
        if (!left_out(x, out.left_out.emplace_back())) return false;
    }
    if (const auto losses = v.find("recent_losses"); losses != v.end()) {
      if (!list(&*losses, 0, "its recent losses")) return false;
      for (const auto& x : *losses)
        if (!number(&x, out.recent_losses.emplace_back(), "a recent loss")) return false;
    }
    if (const auto changes = v.find("group_changes"); changes != v.end()) {
      if (!list(&*changes, 0, "the changes of its optimizer groups")) return false;
      for (const auto& x : *changes) {
        constexpr const char* one = "a change of an optimizer group";
        auto& c = out.group_changes.emplace_back();
        if (!list(&x, 3, one) || !text(&x[0], c.group, one)) return false;
        if (!x[1].is_null() && !number(&x[1], c.learning_rate.emplace(), one)) return false;
        if (!x[2].is_null() && !number(&x[2], c.weight_decay.emplace(), one)) return false;
      }
    }
    const json* scale = get("loss_scale");
    if (scale == nullptr) return false;
    if (scale->is_null()) return true;
    auto& s = out.loss_scale.emplace();
    at = "its loss scale";
    return number(member(*scale, "cur_scale", at), s.cur_scale, at) &&
           number(member(*scale, "cur_iter", at), s.cur_iter, at) &&
           number(member(*scale, "last_overflow_iter", at), s.last_overflow_iter, at) &&
           number(member(*scale, "cur_hysteresis", at), s.cur_hysteresis, at);
  }

  bool data_of(const json& v, formats::data_record& out) {
    const char* at = "its data";
    const json* sources = member(v, "sources", at);
    if (!number(member(v, "sequence_length", at), out.sequence_length, at) ||
        !number(member(v, "validation_fraction", at), out.validation_fraction, at) ||
        !text(member(v, "tokenizer", at), out.tokenizer, at) || !list(sources, 0, at))
      return false;
    for (const auto& x : *sources) {
      const char* one = "a source of its data";
      auto& source = out.sources.emplace_back();
      if (!list(&x, 4, one) || !text(&x[0], source.name, one) || !number(&x[1], source.share, one) ||
          !number(&x[2], source.tokens, one) || !digest(&x[3], source.digest, one))
        return false;
    }
    if (const auto sets = v.find("validation"); sets != v.end()) {
      const char* one = "a validation set of its data";
      if (!list(&*sets, 0, one)) return false;
      for (const auto& x : *sets) {
        auto& set = out.validation.emplace_back();
        if (!list(&x, 3, one) || !text(&x[0], set.set, one) || !number(&x[1], set.tokens, one) ||
            !digest(&x[2], set.digest, one))
          return false;
      }
    }
    if (const auto shuffled = v.find("shuffled"); shuffled != v.end()) {
      if (!shuffled->is_boolean()) return miss(at, "true or false") != nullptr;
      out.shuffled = shuffled->get<bool>();
    }
    if (const auto end = v.find("end_of_text"); end != v.end()) {
      auto& token = out.end_of_text.emplace();
      if (!end->is_null() && !number(&*end, token.emplace(), at)) return false;
    }
    if (const auto documents = v.find("document_mask"); documents != v.end()) {
      if (!documents->is_boolean()) return miss(at, "true or false") != nullptr;
      out.document_mask = documents->get<bool>();
    }
    if (const auto masking = v.find("masking"); masking != v.end()) return masking_of(*masking, out.masking.emplace());
    return true;
  }

  bool masking_of(const json& v, formats::masking_record& out) {
    const char* at = "the masking of its data";
    return number(member(v, "probability", at), out.probability, at) && number(member(v, "mask", at), out.mask, at) &&
           number(member(v, "random", at), out.random, at) && number(member(v, "mask_token", at), out.mask_token, at) &&
           number(member(v, "vocabulary", at), out.vocabulary, at) && digest(member(v, "special", at), out.special, at);
  }

  bool left_out(const json& v, core::left_out_steps& out) {
    const char* at = "what it left out";
    const json* steps = member(v, "steps", at);
    const json* why = member(v, "after_spike", at);
    const json* samples = member(v, "samples", at);
    if (!list(steps, 2, at) || !number(&(*steps)[0], out.first, at) || !number(&(*steps)[1], out.last, at) ||
        !list(samples, 0, at) || why == nullptr)
      return false;
    if (!why->is_boolean()) return miss(at, "true or false") != nullptr;
    out.after_spike = why->get<bool>();
    for (const auto& x : *samples) {
      auto& range = out.samples.emplace_back();
      if (!list(&x, 2, at) || !number(&x[0], range.begin, at) || !number(&x[1], range.end, at)) return false;
    }
    return true;
  }

  bool mask(const json& v, formats::mask_record& out) {
    const char* at = "a mask";
    const auto get = [&](const char* key) { return member(v, key, at); };
    std::string kept, scores;
    if (!text(get("module"), out.module, at) || !text(get("technique"), out.technique, at) ||
        !number(get("elements"), out.elements, at) || !text(get("kept"), kept, at))
      return false;
    if (const auto more = v.find("scores"); more != v.end() && !text(&*more, scores, at)) return false;
    auto bits = formats::bytes_of_hex(kept);
    const uint64_t beyond = out.elements % 8;
    if (!bits || bits->size() != out.elements / 8 + (beyond == 0 ? 0 : 1) ||
        (beyond != 0 && bits->back() >> beyond != 0))
      return miss(at, "a hexadecimal bit for each element") != nullptr;
    auto numbers = formats::numbers_of_hex(scores);
    if (!numbers || (!numbers->empty() && numbers->size() != out.elements))
      return miss(at, "a hexadecimal number for each element, or none,") != nullptr;
    out.bits = std::move(*bits);
    out.scores = std::move(*numbers);
    return true;
  }

  bool tensor(const json& v, formats::tensor_entry& out) {
    std::string kind, type;
    if (!text(member(v, "name", "a tensor"), out.name, "a tensor's name")) return false;
    const std::string where = fmt::format("tensor '{}'", formats::shown(out.name));
    const char* at = where.c_str();
    const auto get = [&](const char* key) { return member(v, key, at); };
    if (!text(get("kind"), kind, at) || !text(get("moment"), out.moment, at) || !text(get("dtype"), type, at) ||
        !list(get("shape"), 0, at) || !list(get("pieces"), 0, at))
      return false;
    const auto k = formats::tensor_kind_from(kind);
    if (!k) return miss(at, fmt::format("a known kind, not '{}',", formats::shown(kind))) != nullptr;
    out.kind = *k;
    bool known = false;
    for (uint8_t t = 0; t <= static_cast<uint8_t>(core::dtype::boolean); ++t)
      if (core::name_of(static_cast<core::dtype>(t)) == type) {
        out.type = static_cast<core::dtype>(t);
        known = true;
      }
    if (!known) return miss(at, fmt::format("a known dtype, not '{}',", formats::shown(type))) != nullptr;
    for (const auto& d : v["shape"])
      if (!number(&d, out.shape.emplace_back(), at)) return false;
    if (const auto how = v.find("cut"); cuts && how != v.end() && !cut(*how, out.cut, at)) return false;
    const bool shares = out.cut.cuts();
    out.pieces.reserve(v["pieces"].size());
    for (const auto& p : v["pieces"]) {
      auto& o = out.pieces.emplace_back();
      if (!list(&p, shares ? 6 : 5, at) || !number(&p[0], o.file, at) || !number(&p[1], o.first, at) ||
          !number(&p[2], o.count, at) || !number(&p[3], o.offset_bytes, at) || !digest(&p[4], o.digest, at) ||
          (shares && !number(&p[5], o.share, at)))
        return false;
    }
    return true;
  }

  bool cut(const json& v, core::parameter_cut& out, const char* at) {
    std::string style;
    if (!text(member(v, "style", at), style, at) || !number(member(v, "dimension", at), out.dimension, at) ||
        !list(member(v, "parts", at), 0, at))
      return false;
    using enum core::tp_style;
    const auto known = {column, row, vocabulary};
    const auto* const found = std::ranges::find(known, style, [](core::tp_style s) { return core::name_of(s); });
    if (found == known.end() || v["parts"].empty())
      return miss(at, fmt::format("a known cut with its parts, not '{}',", formats::shown(style))) != nullptr;
    out.style = *found;
    for (const auto& part : v["parts"]) {
      auto& widths = out.parts.emplace_back();
      if (!list(&part, 0, at)) return false;
      for (const auto& width : part)
        if (!number(&width, widths.emplace_back(), at)) return false;
    }
    return true;
  }

  bool all(const json& v, manifest& out) {
    const char* at = "it";
    const auto get = [&](const char* key) { return member(v, key, at); };
    const json* state = get("run");
    if (!digest(get("save_id"), out.save_id, at) || state == nullptr || !run(*state, out.run) ||
        !list(get("files"), 0, at) || !list(get("tensors"), 0, at) || !list(get("tied"), 0, at))
      return false;
    if (const auto when = v.find("committed_unix_ns"); when != v.end())
      if (!number(&*when, out.committed_unix_ns, at)) return false;
    for (const auto& f : v["files"]) {
      auto& o = out.files.emplace_back();
      if (!list(&f, 2, "its list of files") || !text(&f[0], o.name, "a file's name") ||
          !number(&f[1], o.bytes, "a file's size"))
        return false;
    }
    out.tensors.reserve(v["tensors"].size());
    for (const auto& t : v["tensors"])
      if (!tensor(t, out.tensors.emplace_back())) return false;
    for (const auto& t : v["tied"]) {
      auto& o = out.tied.emplace_back();
      if (!list(&t, 2, "its tied names") || !text(&t[0], o.name, "a tied name") || !text(&t[1], o.of, "a tied name"))
        return false;
    }
    return true;
  }

 private:
  /// Records that `wanted` is missing at `where`, and returns null.
  const json* miss(const char* where, const std::string& wanted) {
    problem = fmt::format("{}: {} was wanted", where, wanted);
    return nullptr;
  }
};

}  // namespace

core::result<void> check_client_state(const std::string& text) {
  depth_guard g(max_client_state_depth);
  if (json::sax_parse(text.begin(), text.end(), &g)) return {};
  return fail(error_kind::bad_input, "the client state is not valid JSON: " + g.problem);
}

core::result<manifest> read_manifest_tree(std::string_view text, bool knows_cuts) {
  guard g(max_manifest_depth);
  if (!json::sax_parse(text.begin(), text.end(), &g)) return fail(error_kind::bad_input, std::move(g.problem));
  const json tree = json::parse(text.begin(), text.end(), nullptr, false);
  manifest out;
  taker take{.cuts = knows_cuts};
  if (!take.all(tree, out)) return fail(error_kind::bad_input, std::move(take.problem));
  return out;
}

}  // namespace troupe::checkpoint
