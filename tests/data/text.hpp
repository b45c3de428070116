// Creates gzip files and reads whole streams of tokens; shared by the tests of data/.
#pragma once

#include <zlib.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "data/token_stream.hpp"
#include "tests/check_ok.hpp"

namespace troupe::tests {

/// Returns one gzip member; `extra` is the content of its extra field, which dictzip uses.
inline std::string gzip(const std::string& text, const std::string& extra = "") {
  z_stream z{};
  BOOST_REQUIRE_EQUAL(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string extra_field = extra;
  gz_header header{};
  if (!extra.empty()) {
    header.extra = reinterpret_cast<Bytef*>(extra_field.data());
    header.extra_len = static_cast<uInt>(extra_field.size());
    deflateSetHeader(&z, &header);
  }
  std::string out(deflateBound(&z, static_cast<uLong>(text.size())) + 1024, '\0');
  std::string in = text;
  z.next_in = reinterpret_cast<Bytef*>(in.data());
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  BOOST_REQUIRE_EQUAL(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

/// Returns the bytes of tokens in a `.bin` file.
template <class Token>
std::string as_bytes(const std::vector<Token>& tokens) {
  if (tokens.empty()) return {};
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)};
}

inline std::vector<int64_t> all_tokens(const data::token_stream& stream) {
  std::vector<int64_t> out(stream.size());
  if (auto ok = stream.copy(0, out); !ok) throw std::runtime_error(ok.error().text);
  return out;
}

inline std::string as_text(const data::token_stream& stream) {
  std::string out;
  for (const int64_t t : all_tokens(stream)) out.push_back(static_cast<char>(t));
  return out;
}

/// Opens a source and returns its stream; fails the test with the text of the error.
inline std::shared_ptr<const data::token_stream> opened(const data::source_options& options) {
  auto stream = data::open_tokens(options);
  BOOST_REQUIRE_MESSAGE(stream, stream.error().text);
  return *stream;
}

/// Checks that opening the source fails with this error kind and that the error's text contains `words`.
inline void check_refused(const data::source_options& options, core::error_kind kind, const std::string& words) {
  check_failed(data::open_tokens(options), kind, words);
}

}  // namespace troupe::tests
