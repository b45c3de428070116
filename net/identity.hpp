// Who this process is to other machines, and whether another is who it should be: a key, its certificate and the
// authority that both ends trust. Owns what is checked of the other end's certificate and the sentence for each
// refusal; the handshake ends in any case, so that both ends hear it (greeting.hpp).
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "net/tls_stream.hpp"

namespace troupe::net {

struct identity_files {
  std::filesystem::path authority, certificate, key;
};
/// As `troupe cert issue` lays them.
inline identity_files identity_files_in(const std::filesystem::path& folder) {
  return {folder / "ca.crt", folder / "host.crt", folder / "host.key"};
}

class identity {
 public:
  /// Errors: bad_input, for files that are missing, none or a key that others may read; mismatch, for a key of another
  /// certificate.
  static core::result<identity> load(const identity_files& files);

  /// What this process's certificate is for.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const tls_options& options(tls_side side) const {
    return side == tls_side::connects ? connects_ : accepts_;
  }
  /// Why the other end of a handshake that is done is not to be believed; empty: it is who it says. `wanted` empty: any
  /// host of the job.
  [[nodiscard]] std::string objection(const tls_stream& with, const std::string& wanted) const;

 private:
  identity() = default;

  std::string name_, authority_;
  tls_options connects_, accepts_;
};

/// What the other end's certificate is for.
std::string peer_name(const tls_stream& with);

}  // namespace troupe::net
