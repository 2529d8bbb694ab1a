// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// The parts of a URL of a server.
struct RedisURL {
  private let scheme: Substring
  private var user: String?
  private var password: String?
  private let place: Substring
  private let path: String
  private var options: [Substring: String] = [:]

  init(_ text: String) throws(RedisError) {
    guard let end = text.firstRange(of: "://") else {
      throw Self.error("has no scheme. Pass redis://HOST:PORT")
    }
    scheme = text[..<end.lowerBound]
    var rest = text[end.upperBound...]
    if let mark = rest.firstIndex(of: "#") {
      throw Self.error(
        "has a \"#\" at character \(rest.distance(from: rest.startIndex, to: mark) + 1) after the scheme. "
          + "Write it as %23")
    }
    if let mark = rest.firstIndex(of: "?") {
      for option in rest[rest.index(after: mark)...].split(separator: "&") {
        let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { throw Self.error("has an option without a value") }
        options[parts[0]] = try Self.decoded(parts[1])
      }
      rest = rest[..<mark]
    }
    // A password may contain a slash only in its encoded form.
    let slash = rest.firstIndex(of: "/") ?? rest.endIndex
    path = try Self.decoded(rest[slash...])
    let authority = rest[..<slash]
    guard let mark = authority.lastIndex(of: "@") else {
      place = authority
      return
    }
    place = authority[authority.index(after: mark)...]
    let parts = authority[..<mark].split(
      separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2 else {
      throw Self.error("has a user without a password. Write redis://USER:PASSWORD@HOST")
    }
    user = parts[0].isEmpty ? nil : try Self.decoded(parts[0])
    password = try Self.decoded(parts[1])
  }

  func configuration() throws(RedisError) -> RedisConfiguration {
    var result: RedisConfiguration
    var known: Set<Substring> = []
    switch scheme {
    case "redis", "rediss":
      let (host, port) = try Self.host(place, port: 6379)
      result = RedisConfiguration(address: .host(host, port: port))
      result.database = try database(path.isEmpty ? "" : path.dropFirst())
      if scheme == "rediss" {
        known = ["ca", "cert", "key", "name"]
        result.tls = try tls()
      }
    case "redis+unix":
      guard place.isEmpty, path.utf8.count > 1 else {
        throw Self.error("has no path of a socket. Write redis+unix:///PATH")
      }
      result = RedisConfiguration(address: .unixSocket(path: path))
      known = ["db"]
      result.database = try database(options["db"].map { $0[...] } ?? "")
    case "redis+sentinel": (result, known) = try sentinels()
    case "redis+cluster":
      guard path.isEmpty || path == "/" else {
        throw Self.error("has a path. Write redis+cluster://HOST,HOST")
      }
      result = RedisConfiguration(address: .cluster(try endpoints(port: 6379)))
      known = try useTLS(in: &result)
    default:
      throw Self.error(
        "has an unknown scheme. The schemes are redis, rediss, redis+unix, redis+sentinel and "
          + "redis+cluster")
    }
    if let other = options.keys.sorted().first(where: { !known.contains($0) }) {
      throw Self.error("has the unknown option \"\(other)\"")
    }
    result.user = user
    result.password = password
    return result
  }

  /// Returns the configuration of a URL with sentinels, and the options that it can have.
  private func sentinels() throws(RedisError) -> (RedisConfiguration, Set<Substring>) {
    let parts = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
    guard (1...2).contains(parts.count), !parts[0].isEmpty else {
      throw Self.error("has no master name. Write redis+sentinel://HOST,HOST/MASTER/DATABASE")
    }
    let sentinels = try endpoints(port: 26_379)
    var result = RedisConfiguration(address: .sentinels(sentinels, master: String(parts[0])))
    result.database = try database(parts.count == 2 ? parts[1] : "")
    result.sentinelUser = options["sentinel_user"]
    result.sentinelPassword = options["sentinel_password"]
    if result.sentinelUser != nil, result.sentinelPassword == nil {
      throw Self.error("has a user of sentinels without a password. Pass sentinel_password")
    }
    let known = try useTLS(in: &result)
    return (result, known.union(["sentinel_user", "sentinel_password"]))
  }

  /// Reads the option `tls`, and returns the options that there can be.
  private func useTLS(
    in result: inout RedisConfiguration
  ) throws(RedisError) -> Set<Substring> {
    guard let secure = options["tls"] else { return [] }
    guard secure == "1" else { throw Self.error("has an invalid value of tls. Pass 1") }
    result.tls = try tls()
    return ["tls", "ca", "cert", "key", "name"]
  }

  /// Reads hosts with optional ports.
  private func endpoints(
    port standard: Int
  ) throws(RedisError) -> [RedisConfiguration.Endpoint] {
    var result: [RedisConfiguration.Endpoint] = []
    for text in place.split(separator: ",", omittingEmptySubsequences: false) {
      let (host, port) = try Self.host(text, port: standard)
      result.append(RedisConfiguration.Endpoint(host, port: port))
    }
    return result
  }

  /// Reads a host with an optional port.
  private static func host(
    _ place: Substring, port standard: Int
  ) throws(RedisError) -> (String, Int) {
    var host = place
    var port: Substring?
    if place.first == "[" {
      guard let end = place.firstIndex(of: "]") else {
        throw error("has an IPv6 address without \"]\"")
      }
      host = place[..<end].dropFirst()
      let rest = place[place.index(after: end)...]
      guard rest.isEmpty || rest.first == ":" else {
        throw error("has something other than a port after \"]\"")
      }
      port = rest.isEmpty ? nil : rest.dropFirst()
    } else if let mark = place.firstIndex(of: ":") {
      host = place[..<mark]
      port = place[place.index(after: mark)...]
    }
    guard !host.isEmpty else { throw error("has no host") }
    guard let port else { return (String(host), standard) }
    guard port.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(port),
      (1...65_535).contains(number)
    else { throw error("has an invalid port. Pass 1 to 65535") }
    return (String(host), number)
  }

  private func database(_ text: Substring) throws(RedisError) -> Int {
    if text.isEmpty { return 0 }
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text),
      number < 1 << 31
    else { throw Self.error("has an invalid database. Pass a number from 0") }
    return number
  }

  private func tls() throws(RedisError) -> RedisTLS {
    var result = RedisTLS()
    result.authorities = options["ca"]
    result.certificate = options["cert"]
    result.key = options["key"]
    result.serverName = options["name"]
    if (result.certificate == nil) != (result.key == nil) {
      throw Self.error("has a certificate without a key, or a key without one. Pass cert and key")
    }
    return result
  }

  /// Replaces percent escapes.
  private static func decoded(_ text: Substring) throws(RedisError) -> String {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      let digits = rest.prefix(2)
      guard digits.count == 2, digits.allSatisfy({ hexadecimal.contains($0) }),
        let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
      else { throw error("has a \"%\" without two hexadecimal digits. Write it as %25") }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    guard let result = String(validating: bytes, as: UTF8.self), !result.utf8.contains(0) else {
      throw error("has percent escapes that are not text")
    }
    return result
  }

  private static let hexadecimal = Set("0123456789abcdefABCDEF".utf8)

  private static func error(_ problem: String) -> RedisError {
    RedisError(.invalidOption, "(URL)", "The URL \(problem).")
  }
}
#endif
