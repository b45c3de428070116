// Authenticates this process to other machines, and other machines to this process, with a key, its certificate and the
// authority that both ends trust. Owns the checks of the other end's certificate and the sentence for each refusal.
// The handshake completes even if a certificate is refused, so that both ends receive the sentence (link_hello.hpp).
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "net/tls_stream.hpp"

namespace troupe::net {

struct identity_files {
  std::filesystem::path authority, certificate, key;
};
/// Returns the paths of a host's files in `folder`, as `troupe cert issue` writes them.
inline identity_files identity_files_in(const std::filesystem::path& folder) {
  return {folder / "ca.crt", folder / "host.crt", folder / "host.key"};
}

class identity {
 public:
  /// Loads the files of an identity. Errors: bad_input, for files that are missing or invalid, or a key that others may
  /// read; mismatch, for a key of another certificate.
  static core::result<identity> load(const identity_files& files);

  /// Returns the host name or address for which this process's certificate was issued.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const tls_options& options(tls_side side) const {
    return side == tls_side::connects ? connects_ : accepts_;
  }
  /// Returns why the other end of a completed handshake is refused; empty if it is accepted. `wanted`: host for which
  /// its certificate must be issued; empty: any host of the job.
  [[nodiscard]] std::string objection(const tls_stream& with, const std::string& wanted) const;

 private:
  identity() = default;

  std::string name_, authority_;
  tls_options connects_, accepts_;
};

/// Returns the host name or address for which the other end's certificate was issued.
std::string peer_name(const tls_stream& with);

}  // namespace troupe::net
