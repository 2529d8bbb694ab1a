// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

/// The writer ticket of a store: `WriterTicket.swift` has the rules. Its numbers are process slots.
extension SharedTable {
  package var ticket: WriterTicket { unsafe WriterTicket(at: base + SharedTableLayout.ticket) }

  /// Releases the ticket if this process holds it.
  @inline(__always)
  func releaseTicket(process: Int, wakingAll: Bool = false) {
    ticket.release(as: process, wakingAll: wakingAll)
  }

  /// The process slot of the ticket's holder; `nil` when the ticket is free. A slot that does not
  /// exist, of a damaged word, counts as one of a process that was killed.
  package var ticketHolder: Int? { ticket.holder }

  /// Whether a process waits for the ticket, or has waited.
  package var isTicketAwaited: Bool { ticket.isAwaited }
}
