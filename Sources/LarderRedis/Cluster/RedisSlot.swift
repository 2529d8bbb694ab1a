// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// The parts into which a cluster divides its keys, as the specification of Redis Cluster defines them.
enum RedisSlot {
  static let count = 16_384

  /// CRC-16/XMODEM of each byte: polynomial 0x1021, initial value zero.
  private static let table: [UInt16] = (0..<256).map { byte in
    (0..<8).reduce(UInt16(byte) << 8) { sum, _ in
      sum & 0x8000 == 0 ? sum << 1 : sum << 1 ^ 0x1021
    }
  }

  /// Returns the slot of a key: that of the part in its first braces, if this part is not empty.
  static func slot(of key: [UInt8]) -> Int {
    var part = key[...]
    if let open = key.firstIndex(of: UInt8(ascii: "{")),
      let close = key[(open + 1)...].firstIndex(of: UInt8(ascii: "}")), close > open + 1
    {
      part = key[(open + 1)..<close]
    }
    var sum: UInt16 = 0
    for byte in part { sum = sum << 8 ^ table[Int(UInt8(truncatingIfNeeded: sum >> 8) ^ byte)] }
    return Int(sum) % count
  }
}

extension RedisCommand {
  /// The key by which a cluster finds the server of the command.
  var key: [UInt8]? {
    let index =
      switch String(decoding: word(0), as: UTF8.self).uppercased() {
      case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO":
        count > 2 && word(2) != [UInt8(ascii: "0")] ? 3 : 0
      case "OBJECT", "MEMORY", "BITOP", "XINFO", "XGROUP", "DEBUG": 2
      case "PING", "ECHO", "TIME", "INFO", "CLIENT", "CLUSTER", "CONFIG", "SCRIPT", "FUNCTION",
        "ACL",
        "COMMAND", "DBSIZE", "SCAN", "KEYS", "RANDOMKEY", "FLUSHALL", "FLUSHDB", "WAIT", "WAITAOF",
        "ROLE", "LATENCY", "SLOWLOG", "PUBLISH", "PUBSUB", "LOLWUT":
        0
      default: 1
      }
    return index > 0 && index < count ? word(index) : nil
  }

  /// Whether the command waits for the writes that were sent before it on the same connection.
  var waitsForReplicas: Bool {
    let name = String(decoding: word(0), as: UTF8.self).uppercased()
    return name == "WAIT"
  }
}
#endif
