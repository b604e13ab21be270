//! The parties as state machines without I/O: what comes in is given, what has to be done is returned. The daemons wire
//! them to sockets and disks, the simulator to a virtual network.

pub mod server;
