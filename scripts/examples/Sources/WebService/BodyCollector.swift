// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization

/// The content of a response, as it is written.
final class BodyBuffer: Sendable {
  private let buffer = Mutex(ByteBuffer())

  var bytes: [UInt8] { buffer.withLock { Array($0.readableBytesView) } }

  func append(_ part: ByteBuffer) {
    buffer.withLock { _ = $0.writeImmutableBuffer(part) }
  }
}

/// Writes the content of a response into memory instead of to a client.
struct BodyCollector: ResponseBodyWriter {
  let content: BodyBuffer

  mutating func write(_ buffer: ByteBuffer) async throws { content.append(buffer) }
  consuming func finish(_ trailingHeaders: HTTPFields?) async throws {}
}
