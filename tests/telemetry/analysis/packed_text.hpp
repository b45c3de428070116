// Packs text as gzip does.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace troupe::telemetry {

inline std::string packed(const std::string& text) {
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("no deflate");
  std::string in = text, out(deflateBound(&z, static_cast<uLong>(text.size())), '\0');
  z.next_in = reinterpret_cast<Bytef*>(in.data());
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  if (deflate(&z, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate did not end");
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace troupe::telemetry
