// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// The error of a failed operation on a server, with its cause and a remedy.
///
/// Its texts name the server by host and port, never by user or password.
public struct RedisError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of a failure. Later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The stable name of the code, as in logs and JSON.
    public let rawValue: String
    /// Creates a code from its name.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The name of the code.
    public var description: String { rawValue }

    /// A URL or an option has no meaning.
    public static let invalidOption = Code(rawValue: "invalidOption")
    /// The server cannot be reached, or refuses connections.
    public static let unreachable = Code(rawValue: "unreachable")
    /// The connection ended. Whether the server has executed a command without a reply is not known.
    public static let connectionLost = Code(rawValue: "connectionLost")
    /// This process has closed the connection.
    public static let closed = Code(rawValue: "closed")
    /// The server did not answer in time. Whether it has executed the command is not known.
    public static let timeout = Code(rawValue: "timeout")
    /// More commands wait for an answer than the connection may have.
    public static let overloaded = Code(rawValue: "overloaded")
    /// The server wants a password, or has rejected it.
    public static let authentication = Code(rawValue: "authentication")
    /// The access list of the server does not permit the command.
    public static let permission = Code(rawValue: "permission")
    /// The certificate or another part of TLS was rejected.
    public static let tls = Code(rawValue: "tls")
    /// The server does not speak RESP3: it is older than Redis 6.
    public static let unsupportedServer = Code(rawValue: "unsupportedServer")
    /// The server sent bytes that are not RESP3, or more than the limits.
    public static let protocolViolation = Code(rawValue: "protocolViolation")
    /// The sentinels monitor no master with the name.
    public static let unknownMaster = Code(rawValue: "unknownMaster")
    /// The server that sentinels have named is a replica. Its values may be old.
    public static let notMaster = Code(rawValue: "notMaster")
    /// The cluster has other primaries by now, or is not in order.
    public static let clusterChanged = Code(rawValue: "clusterChanged")
    /// Another process has a lock for longer than the caller waits.
    public static let lockTimeout = Code(rawValue: "lockTimeout")
    /// A lock could not be renewed while its closure ran.
    public static let lockLost = Code(rawValue: "lockLost")
    /// Fewer replicas have a write than it must have. The server has it.
    public static let notReplicated = Code(rawValue: "notReplicated")
    /// A key of the link has bytes that no link has written.
    public static let unreadableValue = Code(rawValue: "unreadableValue")
    /// The value is larger than a server takes.
    public static let valueTooLarge = Code(rawValue: "valueTooLarge")
    /// The server has answered the command with an error; see ``RedisError/reply``.
    public static let command = Code(rawValue: "command")
  }

  /// The kind of the failure.
  public let code: Code
  /// The host and port or the path of the socket.
  public let server: String
  /// The cause and the remedy.
  public let message: String
  /// The error reply of the server, if there is one.
  public let reply: RedisReplyError?

  /// The server, the cause and the remedy.
  public var description: String { "Redis server \(server): \(message)" }

  init(_ code: Code, _ server: String, _ message: String, reply: RedisReplyError? = nil) {
    self.code = code
    self.server = server
    self.message = message
    self.reply = reply
  }

  /// Returns the error for an error reply to a command.
  static func reply(_ reply: RedisReplyError, from server: String) -> RedisError {
    let (code, remedy): (Code, String) =
      switch reply.code {
      case "WRONGPASS", "NOAUTH":
        (.authentication, "Check the user and the password of the URL.")
      case "NOPERM":
        (.permission, "Permit the command to the user, with ACL SETUSER.")
      case "NOPROTO":
        (.unsupportedServer, "Use Redis 6 or newer, or Valkey.")
      default: (.command, "")
      }
    let text = "The server answered \"\(reply)\"."
    return RedisError(code, server, remedy.isEmpty ? text : text + " " + remedy, reply: reply)
  }
}
#endif
