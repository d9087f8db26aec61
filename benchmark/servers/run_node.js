// Node's http module: run_node.js PORT APPLICATION [WORKERS]
const cluster = require('cluster');
const fs = require('fs');
const http = require('http');
const https = require('https');
const [port, application, workers] = [+process.argv[2], process.argv[3], +(process.argv[4] || 1)];
const answer = (response, body = 'Hello, World!') => {
  response.writeHead(200, {'Content-Type': 'text/plain', 'Content-Length': body.length});
  response.end(body);
};
const fibonacci = (rounds) => {
  let a = 0, b = 1;
  for (let i = 0; i < rounds; i++) [a, b] = [b, (a + b) >>> 0];
  return a;
};
const items = Array.from({length: 50}, (_, n) => ({
  id: n, name: `item ${n}`, price: 100 + n * 37 % 900, quantity: 1 + n % 20, active: n % 3 === 0,
}));
const add = (request, response) => {
  let total = 0;
  for (const [, value] of new URL(request.url, 'http://localhost').searchParams) total += +value;
  if (request.method !== 'POST') return answer(response, String(total));
  let posted = '';
  request.on('data', (chunk) => posted += chunk);
  request.on('end', () => answer(response, String(total + +posted)));
};
const list = (_, response) => {
  const found = items.map((item) => ({...item, total: item.price * item.quantity}));
  const body = JSON.stringify({items: found, count: found.length});
  response.writeHead(200, {'Content-Type': 'application/json', 'Content-Length': body.length});
  response.end(body);
};
const count = (request, response) => {
  let size = 0;
  request.on('data', (chunk) => size += chunk.length);
  request.on('end', () => answer(response, String(size)));
};
const handlers = {
  hello: (_, response) => answer(response),
  tls: (_, response) => answer(response),
  sleep: (_, response) => setTimeout(answer, 10, response),
  fib: (_, response) => answer(response, String(fibonacci(1e6))),
  sum: add,
  items: list,
  upload: count,
};
if (workers > 1 && cluster.isPrimary) {
  for (let i = 0; i < workers; i++) cluster.fork();
} else {
  const {KEYFILE, CERTFILE} = process.env;
  const files = CERTFILE && {key: fs.readFileSync(KEYFILE), cert: fs.readFileSync(CERTFILE)};
  const options = {keepAliveTimeout: 600_000, ...files};
  (files ? https : http).createServer(options, handlers[application]).listen(port, '127.0.0.1', 1024);
}
