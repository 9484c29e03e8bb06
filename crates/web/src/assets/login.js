'use strict';
// A token becomes a cookie. What an address has behind `#` goes to no server.

const form = document.getElementById('form');
const field = document.getElementById('token');
const said = document.getElementById('said');

async function login(token) {
  said.textContent = '';
  const answer = await fetch('/login', { method: 'POST', headers: { Authorization: `Bearer ${token}` } })
    .catch(() => null);
  if (answer && answer.status === 204) {
    // The page that was asked for is behind the same address.
    const place = location.hash.startsWith('#token=') ? '' : location.hash;
    history.replaceState(null, '', `/${place}`);
    location.reload();
    return;
  }
  said.textContent = answer && answer.status === 401 ? 'This is not the token.' : 'The server does not answer.';
  field.focus();
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  login(field.value.trim());
});

if (location.hash.startsWith('#token=')) {
  login(location.hash.slice('#token='.length));
} else {
  field.focus();
}
