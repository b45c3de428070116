#include "net/term_secret.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <cstring>
#include <string_view>

#include "core/number.hpp"
#include "net/openssl.hpp"

namespace troupe::net {
namespace {

using session_pointer = std::unique_ptr<SSL_SESSION, freed_by<SSL_SESSION_free>>;

/// Beginning of a PSK identity (the name that a TLS client sends for its pre-shared key). The identity continues with
/// the numbers of the connecting and of the accepting process, in this order, so that a message that is sent back to
/// its own sender is not accepted.
constexpr std::string_view protocol = "troupe-data-1/";

struct psk {
  std::shared_ptr<const term_key> key;
  std::string identity;  ///< PSK identity that the connecting end sends
};

std::string head_of(const term_key& k) { return fmt::format("{}{}/{}/", protocol, k.job, k.term); }

int options_place() {
  static const int place = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return place;
}
/// Returns the index under which OpenSSL stores, with an accepted handshake, the number of the connecting process plus
/// one.
int peer_place() {
  static const int place = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return place;
}
const psk& psk_of(SSL* s) { return *static_cast<const psk*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(s), options_place())); }

session_pointer session_of(SSL* s, const term_secret& secret) {
  constexpr std::array<unsigned char, 2> aes_128_gcm_sha256{0x13, 0x01};
  session_pointer out(SSL_SESSION_new());
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(s, aes_128_gcm_sha256.data());
  if (out == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(out.get(), reinterpret_cast<const unsigned char*>(secret.bytes().data()),
                                  secret.bytes().size()) != 1 ||
      SSL_SESSION_set_cipher(out.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(out.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return out;
}

int use_session(SSL* s, const EVP_MD* md, const unsigned char** id, size_t* id_bytes, SSL_SESSION** session) {
  const psk& of = psk_of(s);
  *id = reinterpret_cast<const unsigned char*>(of.identity.data());
  *id_bytes = of.identity.size();
  *session = nullptr;
  auto made = session_of(s, of.key->secret);
  if (made == nullptr) return 0;
  if (md != nullptr && md != SSL_CIPHER_get_handshake_digest(SSL_SESSION_get0_cipher(made.get())))
    return 1;  // offers no pre-shared key, because OpenSSL asks for another digest; the other end then refuses
  *session = made.release();
  return 1;
}

int find_session(SSL* s, const unsigned char* id, size_t id_bytes, SSL_SESSION** session) {
  const term_key& k = *psk_of(s).key;
  *session = nullptr;  // unless a key is found below, the handshake fails, because no end has a certificate
  std::string_view name(reinterpret_cast<const char*>(id), id_bytes);
  const std::string head = head_of(k), tail = fmt::format("/{}", k.place);
  if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail)) return 1;
  name = name.substr(head.size(), name.size() - head.size() - tail.size());
  const auto from = core::number_of<uint32_t>(name);
  if (!from || *from <= k.place) return 1;
  auto made = session_of(s, k.secret);
  if (made == nullptr) return 0;
  SSL_set_ex_data(s, peer_place(), reinterpret_cast<void*>(static_cast<uintptr_t>(*from) + 1));
  *session = made.release();
  return 1;
}

core::result<tls_options> make_options(tls_side side, std::shared_ptr<const psk> of) {
  auto made = make_tls_options(side);
  if (!made) return made;
  SSL_CTX* const c = made->get();
  SSL_CTX_set_ex_data(c, options_place(), const_cast<psk*>(of.get()));
  if (side == tls_side::connects) {
    SSL_CTX_set_psk_use_session_callback(c, use_session);
  } else {
    // OpenSSL requires a session id context of an accepting end that verifies the other end.
    constexpr std::array<unsigned char, 4> context{'d', 'a', 't', 'a'};
    SSL_CTX_set_session_id_context(c, context.data(), context.size());
    SSL_CTX_set_psk_find_session_callback(c, find_session);
  }
  // Refuses every certificate, because no authority is set: only the pre-shared key authenticates.
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return tls_options(c, [options = *made, of = std::move(of)](SSL_CTX*) {});
}

}  // namespace

term_secret::~term_secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

core::result<term_secret> term_secret::draw() {
  std::array<std::byte, 32> bytes{};
  const bool drawn = RAND_priv_bytes(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size()) == 1;
  term_secret out(bytes);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  if (!drawn) return core::fail(core::error_kind::limit, "cannot make a term's secret: " + openssl_failure());
  return out;
}

core::result<tls_options> secret_options_to(std::shared_ptr<const term_key> key, uint32_t place) {
  auto of = std::make_shared<psk>();
  of->identity = fmt::format("{}{}/{}", head_of(*key), key->place, place);
  of->key = std::move(key);
  return make_options(tls_side::connects, std::move(of));
}

core::result<tls_options> secret_options(std::shared_ptr<const term_key> key) {
  return make_options(tls_side::accepts, std::make_shared<psk>(psk{std::move(key), {}}));
}

std::optional<uint32_t> place_of(const tls_stream& with) {
  const auto place = reinterpret_cast<uintptr_t>(SSL_get_ex_data(with.get(), peer_place()));
  if (place == 0) return std::nullopt;
  return static_cast<uint32_t>(place - 1);
}

core::result<bool> secret_check::advance(tls_stream& with) {
  EVP_PKEY* share = nullptr;
  const bool fresh = SSL_get_peer_tmp_key(with.get(), &share) == 1;
  const key_pointer owner(share);
  if (SSL_session_reused(with.get()) == 1 && fresh) return true;
  return core::fail(core::error_kind::mismatch, "it did not prove that it has the term's secret");
}

}  // namespace troupe::net
