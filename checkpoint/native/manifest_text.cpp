// Writing is by hand, so that the bytes are ours; reading is a guard over the JSON's events, which bounds everything,
// then nlohmann's tree, then check_manifest().
#include "checkpoint/native/manifest_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/safetensors/header.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;
using nlohmann::json;

constexpr std::string_view line_begin = R"({"format":"troupe checkpoint","version":)";
constexpr std::string_view line_digest = R"(,"digest":")";
constexpr std::string_view line_end = "\",\n";

struct written_version {
  uint32_t value = 0;
  size_t digits = 0;  ///< 0: none
};

/// Of a text that begins as a manifest.
written_version version_of(std::string_view text) {
  text.remove_prefix(line_begin.size());
  written_version out;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out.value);
  if (problem == std::errc()) out.digits = static_cast<size_t>(end - text.data());
  return out;
}

/// Depth, number of values, keys that stand twice.
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
      return wrong(fmt::format("the key '{}' stands twice", shown(name)));
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

/// Depth alone: keys and values of a host's own JSON are its business.
class depth_guard : public guard {
 public:
  using guard::guard;
  bool key(std::string&) override { return true; }
};

core::result<void> check_client_state(const std::string& text) {
  depth_guard g(max_client_state_depth);
  if (json::sax_parse(text.begin(), text.end(), &g)) return {};
  return fail(error_kind::bad_input, "the client state is no JSON: " + g.problem);
}

/// Takes values out of the tree; the first that is missing or of another type stays in `problem`.
class taker {
 public:
  bool cuts = true;  ///< of tensors: an older version does not know them
  std::string problem{};

  /// The member, or null with the problem noted.
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
      // the reader's own types: whole numbers that are not negative are unsigned
      const bool fits = v->is_number_unsigned()  ? std::in_range<T>(v->get<uint64_t>())
                        : v->is_number_integer() ? std::in_range<T>(v->get<int64_t>())
                                                 : false;
      if (!fits) return miss(where, "a whole number in range") != nullptr;
      out = v->get<T>();
    }
    return true;
  }
  bool text(const json* v, std::string& out, const char* where) {
    if (v == nullptr) return false;
    if (!v->is_string()) return miss(where, "text") != nullptr;
    out = v->get_ref<const std::string&>();
    return true;
  }
  bool digest(const json* v, digest128& out, const char* where) {
    std::string hex;
    if (!text(v, hex, where)) return false;
    const auto d = digest_from_hex(hex);
    if (!d) return miss(where, "32 hexadecimal digits") != nullptr;
    out = *d;
    return true;
  }
  /// A list of exactly `size` values, or of any number where that is 0.
  bool list(const json* v, size_t size, const char* where) {
    if (v == nullptr) return false;
    if (v->is_array() && (size == 0 || v->size() == size)) return true;
    return miss(where, size == 0 ? std::string("a list") : fmt::format("a list of {} values", size)) != nullptr;
  }

  bool run(const json& v, run_state& out) {
    const char* at = "its run state";
    const auto get = [&](const char* key) { return member(v, key, at); };
    if (!number(get("step"), out.step, at) || !number(get("applied_updates"), out.applied_updates, at) ||
        !number(get("data_position"), out.data_position, at) || !number(get("seed"), out.seed, at) ||
        !text(get("config"), out.config, at) || !text(get("model"), out.model, at) ||
        !text(get("client_state"), out.client_state, at))
      return false;
    // An older manifest has none of these.
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
        input_range& r = out.input_ranges.emplace_back();
        constexpr const char* one = "a range of an input";
        if (!list(&x, 3, one) || !text(&x[0], r.layer, one) || !number(&x[1], r.least, one) ||
            !number(&x[2], r.largest, one))
          return false;
      }
    }
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

  bool mask(const json& v, mask_record& out) {
    const char* at = "a mask";
    const auto get = [&](const char* key) { return member(v, key, at); };
    std::string kept, scores;
    if (!text(get("module"), out.module, at) || !text(get("technique"), out.technique, at) ||
        !number(get("elements"), out.elements, at) || !text(get("kept"), kept, at))
      return false;
    if (const auto more = v.find("scores"); more != v.end() && !text(&*more, scores, at)) return false;
    auto bits = bytes_of_hex(kept);
    const uint64_t beyond = out.elements % 8;
    if (!bits || bits->size() != out.elements / 8 + (beyond == 0 ? 0 : 1) ||
        (beyond != 0 && bits->back() >> beyond != 0))
      return miss(at, "a hexadecimal bit for each element") != nullptr;
    auto numbers = numbers_of_hex(scores);
    if (!numbers || (!numbers->empty() && numbers->size() != out.elements))
      return miss(at, "a hexadecimal number for each element, or none,") != nullptr;
    out.bits = std::move(*bits);
    out.scores = std::move(*numbers);
    return true;
  }

  bool tensor(const json& v, tensor_entry& out) {
    std::string kind, type;
    if (!text(member(v, "name", "a tensor"), out.name, "a tensor's name")) return false;
    const std::string where = fmt::format("tensor '{}'", shown(out.name));
    const char* at = where.c_str();
    const auto get = [&](const char* key) { return member(v, key, at); };
    if (!text(get("kind"), kind, at) || !text(get("moment"), out.moment, at) || !text(get("dtype"), type, at) ||
        !list(get("shape"), 0, at) || !list(get("pieces"), 0, at))
      return false;
    const auto k = tensor_kind_from(kind);
    if (!k) return miss(at, fmt::format("a kind that is known here, not '{}',", shown(kind))) != nullptr;
    out.kind = *k;
    bool known = false;
    for (uint8_t t = 0; t <= static_cast<uint8_t>(core::dtype::boolean); ++t)
      if (core::name_of(static_cast<core::dtype>(t)) == type) {
        out.type = static_cast<core::dtype>(t);
        known = true;
      }
    if (!known) return miss(at, fmt::format("a dtype that is known here, not '{}',", shown(type))) != nullptr;
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
      return miss(at, fmt::format("a cut that is known here, with its parts, not '{}',", shown(style))) != nullptr;
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
  /// Null, for brevity above.
  const json* miss(const char* where, const std::string& wanted) {
    problem = fmt::format("{}: {} was wanted", where, wanted);
    return nullptr;
  }
};

std::string or_null(const std::optional<uint64_t>& x) { return x ? std::to_string(*x) : "null"; }

std::string quoted(const std::string& text) { return json(text).dump(); }

void append_cut(std::string& out, const core::parameter_cut& cut) {
  out += fmt::format(R"("cut":{{"style":"{}","dimension":{},"parts":[)", core::name_of(cut.style), cut.dimension);
  for (size_t i = 0; i < cut.parts.size(); ++i)
    out += fmt::format("{}[{}]", i == 0 ? "" : ",", fmt::join(cut.parts[i], ","));
  out += "]},";
}

void append_tensor(std::string& out, const tensor_entry& t) {
  out += fmt::format(R"({{"name":{},"kind":"{}","moment":{},"dtype":"{}","shape":[{}],)", quoted(t.name),
                     name_of(t.kind), quoted(t.moment), core::name_of(t.type), fmt::join(t.shape, ","));
  if (t.cut.cuts()) append_cut(out, t.cut);
  out += "\"pieces\":[";
  for (size_t i = 0; i < t.pieces.size(); ++i) {
    const auto& p = t.pieces[i];
    out += fmt::format(R"({}[{},{},{},{},"{}")", i == 0 ? "" : ",", p.file, p.first, p.count, p.offset_bytes,
                       to_hex(p.digest));
    out += t.cut.cuts() ? fmt::format(",{}]", p.share) : "]";
  }
  out += "]}";
}

/// Behind the other keys of the run; nothing where it prunes nothing.
std::string masks_of(const run_state& r) {
  std::string out;
  for (const auto& x : r.masks) {
    out += fmt::format("{}\n{{\"module\":{},\"technique\":{},\"elements\":{},\"kept\":\"{}\"",
                       out.empty() ? ",\"masks\":[" : ",", quoted(x.module), quoted(x.technique), x.elements,
                       hex_of(x.bits));
    out += x.scores.empty() ? "}" : fmt::format(",\"scores\":\"{}\"}}", hex_of(x.scores));
  }
  return out.empty() ? out : out + "]";
}

/// Nothing where nothing was left out, and no losses are kept.
std::string left_out_of(const run_state& r) {
  std::string out;
  for (const auto& x : r.left_out) {
    out += fmt::format("{}\n{{\"steps\":[{},{}],\"after_spike\":{},\"samples\":[",
                       out.empty() ? ",\"left_out\":[" : ",", x.first, x.last, x.after_spike);
    for (size_t i = 0; i < x.samples.size(); ++i)
      out += fmt::format("{}[{},{}]", i == 0 ? "" : ",", x.samples[i].begin, x.samples[i].end);
    out += "]}";
  }
  if (!out.empty()) out += "]";
  for (size_t i = 0; i < r.recent_losses.size(); ++i)
    out += (i == 0 ? ",\n\"recent_losses\":[" : ",") + json(r.recent_losses[i]).dump();
  return r.recent_losses.empty() ? out : out + "]";
}

uint32_t version_for(const manifest& m) {
  if (!m.run.left_out.empty()) return 3;
  return std::ranges::any_of(m.tensors, [](const auto& t) { return t.cut.cuts(); }) ? 2 : 1;
}

std::string body_of(const manifest& m) {
  const auto& r = m.run;
  std::string order;
  for (const auto& name : r.parameter_order) {
    if (!order.empty()) order += ',';
    order += quoted(name);
  }
  std::string ranges;
  for (const auto& x : r.input_ranges)
    ranges += fmt::format("{}[{},{},{}]", ranges.empty() ? ",\n\"input_ranges\":[" : ",", quoted(x.layer),
                          json(x.least).dump(), json(x.largest).dump());
  if (!ranges.empty()) ranges += "]";
  std::string scale = "null";
  if (r.loss_scale)
    scale = fmt::format(R"({{"cur_scale":{},"cur_iter":{},"last_overflow_iter":{},"cur_hysteresis":{}}})",
                        json(r.loss_scale->cur_scale).dump(), r.loss_scale->cur_iter, r.loss_scale->last_overflow_iter,
                        r.loss_scale->cur_hysteresis);
  std::string teacher;
  if (r.teacher)
    teacher = fmt::format(R"(,"teacher":{{"folder":{},"digest":"{}"}})", quoted(r.teacher->folder),
                          to_hex(r.teacher->digest));
  std::string out = fmt::format(
      "\"save_id\":\"{}\",\n\"run\":{{\"step\":{},\"applied_updates\":{},\"loss_scale\":{},"
      "\"data_position\":{},\"seed\":{},\n\"config\":{},\n\"model\":{},\n\"client_state\":{},\n"
      "\"schedule_position\":{},\"samples_per_step\":{},\"parameter_order\":[{}]{}{}{}{}}},\n\"committed_unix_ns\":{},"
      "\n",
      to_hex(m.save_id), r.step, r.applied_updates, scale, r.data_position, r.seed, quoted(r.config), quoted(r.model),
      quoted(r.client_state), or_null(r.schedule_position), or_null(r.samples_per_step), order, masks_of(r), teacher,
      ranges, left_out_of(r), m.committed_unix_ns);
  out += "\"files\":[";
  for (size_t i = 0; i < m.files.size(); ++i)
    out += fmt::format("{}[{},{}]", i == 0 ? "" : ",", quoted(m.files[i].name), m.files[i].bytes);
  out += "],\n\"tensors\":[";
  for (size_t i = 0; i < m.tensors.size(); ++i) {
    out += i == 0 ? "\n" : ",\n";
    append_tensor(out, m.tensors[i]);
  }
  out += "],\n\"tied\":[";
  for (size_t i = 0; i < m.tied.size(); ++i)
    out += fmt::format("{}[{},{}]", i == 0 ? "" : ",", quoted(m.tied[i].name), quoted(m.tied[i].of));
  out += "]}\n";
  return out;
}

}  // namespace

std::string sealed(std::string_view body, uint32_t version) {
  return fmt::format("{}{}{}{}{}{}", line_begin, version, line_digest, to_hex(digest_of(body)), line_end, body);
}

bool looks_like_manifest(std::string_view first_bytes) { return first_bytes.starts_with(line_begin); }

core::result<digest128> seal_of(std::string_view text) {
  const auto bad = [](std::string why) { return fail(error_kind::bad_input, std::move(why)); };
  if (!looks_like_manifest(text)) return bad("it does not begin as the manifest of a Troupe checkpoint");
  const auto [version, digits] = version_of(text);
  if (digits == 0) return bad("its first line names no version");
  if (version > manifest_version)
    return fail(error_kind::mismatch,
                fmt::format("it has version {}, this program reads versions up to {}", version, manifest_version));
  text.remove_prefix(line_begin.size() + digits);
  const size_t line_bytes = line_digest.size() + 32 + line_end.size();
  if (version == 0 || text.size() < line_bytes || !text.starts_with(line_digest) ||
      text.substr(line_digest.size() + 32, line_end.size()) != line_end)
    return bad("its first line is damaged");
  const auto digest = digest_from_hex(text.substr(line_digest.size(), 32));
  if (!digest) return bad("its first line is damaged");
  text.remove_prefix(line_bytes);
  if (digest_of(text) != *digest)
    return bad(
        fmt::format("its {} bytes behind the first line do not have the digest {}", text.size(), to_hex(*digest)));
  return *digest;
}

core::result<std::string> format_manifest(const manifest& m) {
  if (auto ok = check_manifest(m); !ok) return fail(ok.error());
  if (auto ok = check_client_state(m.run.client_state); !ok) return fail(ok.error());
  std::string text;
  try {
    text = sealed(body_of(m), version_for(m));
  } catch (const json::exception&) {
    return fail(error_kind::bad_input, "a name or a text of the run state is not UTF-8");
  }
  if (text.size() > max_manifest_bytes)
    return fail(error_kind::limit,
                fmt::format("it would take {} bytes, at most {} are read", text.size(), max_manifest_bytes));
  return text;
}

core::result<manifest> parse_manifest(std::string_view text) {
  if (text.size() > max_manifest_bytes)
    return fail(error_kind::limit,
                fmt::format("it has {} bytes, at most {} are read", text.size(), max_manifest_bytes));
  if (auto seal = seal_of(text); !seal) return fail(seal.error());
  guard g(max_manifest_depth);
  if (!json::sax_parse(text.begin(), text.end(), &g)) return fail(error_kind::bad_input, std::move(g.problem));
  const json tree = json::parse(text.begin(), text.end(), nullptr, false);
  manifest out;
  taker take{.cuts = version_of(text).value > 1};
  if (!take.all(tree, out)) return fail(error_kind::bad_input, std::move(take.problem));
  if (auto ok = check_manifest(out); !ok) return fail(ok.error());
  if (auto ok = check_client_state(out.run.client_state); !ok) return fail(ok.error());
  return out;
}

}  // namespace troupe::checkpoint
