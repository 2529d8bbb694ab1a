// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation

/// Base64, and its form for addresses when reading.
enum Base64Text {
  static func text(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

  static func bytes(_ text: String) -> [UInt8]? {
    var plain = text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }
    if !plain.contains("=") {
      plain += repeatElement("=", count: (4 - plain.count % 4) % 4)
    }
    return Data(base64Encoded: String(plain)).map(Array.init)
  }
}
